//! One question, asked of one server after the other until some answer is good enough.
//!
//! ```text
//!   search ─ server ─► probe (is it of our cluster?) ─► dial ─► ask ─► answer ─► taken, or the next server
//!                                                                  └─ silent: others are asked who leads
//! ```

use std::time::Duration;

use wire::{Answer, Ask, Code, Refusal};

use crate::known::{Known, is_a_cluster, names_clusters};
use crate::links::{Input, Lines, Link, Links};
use crate::lookout::{Lookout, OWED};
use crate::owed::Owed;
use crate::question::Question;
use crate::said::{Said, Timeouts, Unreachable, elsewhere};
use crate::search::{Next, Search};

#[derive(Debug)]
pub(crate) struct Seeker {
    pub ask: Ask,
    search: Search,
    exchange: Option<Exchange>,
}

/// With one server, from the dial to the first answer that counts.
#[derive(Debug)]
struct Exchange {
    server: String,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Asks which cluster the server belongs to: another server may listen at an address at any time.
    Probing(Question),
    /// The request names the cluster where the server understands that.
    Dialling {
        link: Link,
        names_cluster: bool,
    },
    Asked(Asked),
    /// It refused a request that names the cluster: perhaps its program is too old to know that.
    Doubting(Question, Refusal),
}

#[derive(Debug)]
struct Asked {
    link: Link,
    lines: Lines,
    owed: Owed,
    /// After so long others are asked.
    patience: Duration,
    names_cluster: bool,
}

/// The result so far.
#[derive(Debug)]
pub(crate) enum Found {
    /// The connection is open until the next server is asked, or it is taken.
    Answered {
        server: String,
        answer: Answer,
    },
    /// Nothing was asked there.
    Unreached {
        server: String,
        said: Said,
    },
    /// The question may have been understood, but no answer came.
    Unanswered {
        server: String,
        said: Said,
    },
    GaveUp(Unreachable),
}

/// The things that the surrounding machine lends.
pub(crate) struct Lent<'a> {
    pub now: Duration,
    pub known: &'a mut Known,
    pub links: &'a mut Links,
    pub lookout: &'a mut Lookout,
    pub timeouts: &'a Timeouts,
}

impl Seeker {
    pub fn new(ask: Ask, search: Search) -> Self {
        Self {
            ask,
            search,
            exchange: None,
        }
    }

    /// Goes on elsewhere, later there again.
    pub fn said(&mut self, lent: &mut Lent, server: &str, said: Said) {
        self.hang_up(lent);
        self.search.said(lent.known, server, said);
    }

    /// Asks this server next.
    pub fn again(&mut self, lent: &mut Lent, server: &str) {
        self.hang_up(lent);
        self.search.again(server);
    }

    /// The connection on which the last answer came. From here on it is the caller's.
    pub fn take(&mut self) -> Option<(Link, Lines)> {
        match self.exchange.take()?.stage {
            Stage::Asked(asked) => Some((asked.link, asked.lines)),
            _ => None,
        }
    }

    /// More is to come from the server that answered last; others are asked after `patience`.
    pub fn listen(&mut self, now: Duration, patience: Duration) {
        if let Some(Exchange {
            stage: Stage::Asked(asked),
            ..
        }) = &mut self.exchange
        {
            (asked.owed, asked.patience) = (Owed::from(now), patience);
        }
    }

    pub fn hang_up(&mut self, lent: &mut Lent) {
        lent.lookout.disarm(lent.links);
        match self.exchange.take().map(|exchange| exchange.stage) {
            None => {}
            Some(Stage::Probing(question) | Stage::Doubting(question, _)) => {
                question.give_up(lent.links);
            }
            Some(Stage::Dialling { link, .. }) => lent.links.close(link),
            Some(Stage::Asked(asked)) => lent.links.close(asked.link),
        }
    }

    /// `deadline` ends the search, and no exchange that is under way. `None`: the caller bounds what is waited for.
    pub fn deadline(
        &self,
        deadline: Duration,
        timeouts: &Timeouts,
        lookout: &Lookout,
    ) -> Option<Duration> {
        Some(
            match self.exchange.as_ref().map(|exchange| &exchange.stage) {
                None => {
                    let paused = self.search.paused_until();
                    paused.map_or(deadline, |until| until.min(deadline))
                }
                Some(Stage::Probing(question) | Stage::Doubting(question, _)) => question.deadline,
                Some(Stage::Dialling { .. }) => return None,
                Some(Stage::Asked(asked)) => {
                    let patience = match lookout.is_armed() {
                        true => timeouts.silence,
                        false => asked.patience.min(timeouts.silence),
                    };
                    let owed = asked.owed.since().saturating_add(patience);
                    lookout.deadline().map_or(owed, |look| look.min(owed))
                }
            },
        )
    }

    /// Call it until nothing is found: what is found has to be dealt with first.
    pub fn handle(&mut self, lent: &mut Lent, input: &Input, deadline: Duration) -> Option<Found> {
        if let Some(found) = self.progress(lent, input) {
            return Some(found);
        }
        if self.exchange.is_some() {
            return None;
        }
        match self.search.next(lent.now, deadline, lent.known) {
            Next::Pause => None,
            Next::GiveUp(unreachable) => Some(Found::GaveUp(unreachable)),
            Next::Ask(server) => {
                let probes =
                    lent.known.cluster.is_some() && !lent.known.understands.contains_key(&server);
                let connect = lent.timeouts.connect;
                let stage = match probes {
                    // A server that is slow with that is asked again when the others have been.
                    true => Stage::Probing(Question::ask(
                        lent.links,
                        &server,
                        connect,
                        lent.now + connect,
                    )),
                    false => Stage::Dialling {
                        link: lent.links.connect(&server, connect),
                        names_cluster: lent.known.understands.get(&server) == Some(&true),
                    },
                };
                self.exchange = Some(Exchange { server, stage });
                None
            }
        }
    }

    fn progress(&mut self, lent: &mut Lent, input: &Input) -> Option<Found> {
        let exchange = self.exchange.as_mut()?;
        let server = exchange.server.clone();
        match &mut exchange.stage {
            Stage::Probing(question) => {
                let told = question.handle(lent.now, lent.links, input)?;
                let said = match told {
                    Ok(status) if is_other(lent.known, &status.cluster) => {
                        Said::OtherCluster(status.cluster)
                    }
                    Ok(status) => {
                        lent.known.learn(&server, &status);
                        exchange.stage = Stage::Dialling {
                            link: lent.links.connect(&server, lent.timeouts.connect),
                            names_cluster: names_clusters(&status),
                        };
                        return None;
                    }
                    Err(said) => said,
                };
                self.exchange = None;
                Some(Found::Unreached { server, said })
            }
            Stage::Dialling {
                link,
                names_cluster,
            } => match input {
                Input::Connected(connected) if connected == link => {
                    let link = *link;
                    let cluster = lent.known.cluster.as_deref();
                    let cluster = cluster.filter(|_| *names_cluster);
                    let line = self.ask.to_line_for(cluster);
                    lent.links.send(link, line.into_bytes());
                    exchange.stage = Stage::Asked(Asked {
                        link,
                        lines: Lines::default(),
                        owed: Owed::from(lent.now),
                        patience: OWED,
                        names_cluster: cluster.is_some(),
                    });
                    None
                }
                Input::Lost(lost, said) if lost == link => {
                    // The next process that listens there is asked again.
                    lent.known.understands.remove(&server);
                    let said = said.clone();
                    self.exchange = None;
                    Some(Found::Unreached { server, said })
                }
                _ => None,
            },
            Stage::Asked(asked) => {
                let said = match asked.hear(lent, &server, input) {
                    None => return None,
                    Some(Ok(Answer::Error(refusal))) if asked.is_doubtful(&refusal) => {
                        lent.links.close(asked.link);
                        let (connect, silence) = (lent.timeouts.connect, lent.timeouts.silence);
                        let until = lent.now + silence;
                        let question = Question::ask(lent.links, &server, connect, until);
                        exchange.stage = Stage::Doubting(question, refusal);
                        return None;
                    }
                    Some(Ok(answer)) => return Some(Found::Answered { server, answer }),
                    Some(Err(said)) => said,
                };
                self.hang_up(lent);
                Some(Found::Unanswered { server, said })
            }
            Stage::Doubting(question, refusal) => {
                let told = question.handle(lent.now, lent.links, input)?;
                if told.is_ok_and(|status| !names_clusters(&status)) {
                    // It is asked again, without.
                    lent.known.understands.insert(server.clone(), false);
                    self.exchange = None;
                    self.search.again(&server);
                    return None;
                }
                let answer = Answer::Error(refusal.clone());
                self.exchange = None;
                Some(Found::Answered { server, answer })
            }
        }
    }
}

fn is_other(known: &Known, cluster: &str) -> bool {
    is_a_cluster(cluster) && known.cluster() != Some(cluster)
}

impl Asked {
    /// An answer, or the reason why there is none.
    fn hear(
        &mut self,
        lent: &mut Lent,
        server: &str,
        input: &Input,
    ) -> Option<Result<Answer, Said>> {
        match input {
            Input::Received(link, bytes) if *link == self.link => {
                self.owed.came(lent.now, bytes.len());
                self.lines.push(bytes);
            }
            Input::Lost(link, said) if *link == self.link => return Some(Err(said.clone())),
            _ => {}
        }
        match self.lines.answer() {
            Ok(None) => {}
            Ok(Some(answer)) => {
                lent.lookout.disarm(lent.links);
                return Some(Ok(answer));
            }
            Err(error) => return Some(Err(Said::Garbled(error.to_string()))),
        }
        let Lent { now, links, .. } = lent;
        if lent.lookout.handle(*now, links, lent.known, input) {
            return Some(Err(Said::Silent));
        }
        let silent = now.saturating_sub(self.owed.since());
        if silent >= lent.timeouts.silence {
            return Some(Err(Said::Silent));
        }
        if silent >= self.patience && !lent.lookout.is_armed() {
            lent.lookout.arm(*now, server);
            lent.lookout.handle(*now, links, lent.known, &Input::Time);
        }
        None
    }

    fn is_doubtful(&self, refusal: &Refusal) -> bool {
        self.names_cluster && refusal.code == Code::BadRequest && elsewhere(refusal).is_none()
    }
}
