//! One server is asked, on a connection of its own, how it sees the cluster.

use std::time::Duration;

use wire::told::Status;
use wire::{Answer, Ask};

use crate::known::Known;
use crate::links::{Input, Lines, Link, Links, Output};
use crate::said::{Said, elsewhere};

#[derive(Debug)]
pub(crate) struct Question {
    link: Link,
    pub server: String,
    pub deadline: Duration,
    lines: Lines,
}

impl Question {
    /// To be answered by `deadline`, connecting included.
    pub fn ask(links: &mut Links, server: &str, within: Duration, deadline: Duration) -> Self {
        Self {
            link: links.connect(server, within),
            server: server.to_owned(),
            deadline,
            lines: Lines::default(),
        }
    }

    /// The answer, once. The connection is closed then.
    pub fn handle(
        &mut self,
        now: Duration,
        links: &mut Links,
        input: &Input,
    ) -> Option<Result<Status, Said>> {
        let answer = match input {
            Input::Connected(link) if *link == self.link => {
                let line = Ask::Status { fresh: false }.to_line();
                links.send(self.link, line.into_bytes());
                return None;
            }
            Input::Received(link, bytes) if *link == self.link => {
                self.lines.push(bytes);
                match self.lines.answer() {
                    Ok(None) => return None,
                    Ok(Some(answer)) => status_in(answer),
                    Err(error) => Err(Said::Garbled(error.to_string())),
                }
            }
            Input::Lost(link, said) if *link == self.link => Err(said.clone()),
            _ if now >= self.deadline => Err(Said::Silent),
            _ => return None,
        };
        self.give_up(links);
        Some(answer)
    }

    pub fn give_up(&self, links: &mut Links) {
        links.close(self.link);
    }
}

fn status_in(answer: Answer) -> Result<Status, Said> {
    match answer {
        Answer::Ok(json) => {
            serde_json::from_str(&json).map_err(|error| Said::Garbled(error.to_string()))
        }
        Answer::Error(refusal) => {
            Err(elsewhere(&refusal).unwrap_or(Said::Garbled(refusal.to_string())))
        }
        other => Err(Said::Garbled(other.to_line().trim_end().to_owned())),
    }
}

/// Asks one server how it sees the cluster, and learns from the answer.
#[derive(Debug)]
pub struct Learner {
    links: Links,
    question: Question,
    told: Option<Result<Status, Said>>,
}

impl Learner {
    /// It has until `deadline`, of which each address is tried for `within` at most.
    pub fn new(server: &str, within: Duration, deadline: Duration) -> Self {
        let mut links = Links::default();
        let question = Question::ask(&mut links, server, within, deadline);
        Self {
            links,
            question,
            told: None,
        }
    }

    pub fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        if self.told.is_some() {
            return;
        }
        self.told = self.question.handle(now, &mut self.links, input);
        if let Some(Ok(status)) = &self.told {
            known.learn(&self.question.server, status);
        }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.links.poll()
    }

    pub fn deadline(&self) -> Option<Duration> {
        self.told.is_none().then_some(self.question.deadline)
    }

    /// The server's answer, once it gave one or its time is over.
    pub fn told(&mut self) -> Option<Result<Status, Said>> {
        self.told.clone()
    }
}
