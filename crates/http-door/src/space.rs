//! The space of streams, as the door's threads ask it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::View;
use linux::PostOffice;
use ops::{Letter, MachineId};
use spaces::{Asker, Fate, OfView, See, Seen, Submit};
use streams::{Answer, Failed, Found, From, Limits, Path, Read, Refusal, Request, Standing, Usage};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::answers::{Answers, Room};
use crate::fault::Fault;
use crate::name::SPACE;

/// A space that was made is on this node after so long.
const APPEARS_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether a space is there, in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Space {
    There,
    Missing,
    /// Nobody can say now, for this reason.
    NotKnown(String),
    /// A log of another kind has its name.
    Other,
}

/// Finds spaces, and makes them. It may take a while: it is asked on a thread of its own.
pub trait Spaces: Send + Sync + 'static {
    fn find(&self, name: &str) -> Space;

    /// Makes one, if it is not there. Errors: for this reason it cannot be made.
    fn make(&self, name: &str) -> Result<(), String>;
}

/// One space. Clones are the same.
#[derive(Clone)]
pub struct Handle {
    pub name: Arc<str>,
    pub office: PostOffice,
    /// The machine that has the spaces.
    pub machine: MachineId,
    pub spaces: Arc<dyn Spaces>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "space {}", self.name)
    }
}

/// A request that was executed.
pub struct Done {
    pub answer: Answer,
    /// It was handed on before, and nobody knew what came of that.
    pub is_again: bool,
}

/// What came of a look.
enum Came<T> {
    Seen(T),
    NotNow(String),
    NotHere,
    Stopped,
}

struct Waits(oneshot::Sender<Fate>);

impl Asker for Waits {
    fn tell(self: Box<Self>, fate: Fate) {
        // Whoever asked may be gone.
        let _ = self.0.send(fate);
    }

    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

fn stopped() -> Fault {
    Fault::not_now("this node is stopping")
}

fn unreadable() -> Fault {
    Fault::of(Refusal::Unreadable)
}

/// The wall clock, in milliseconds since the beginning of 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The limits of a space, as this node has them.
pub enum LimitsHere {
    Are(Limits),
    /// It has no such space.
    NotHere,
    /// It cannot say now.
    NotNow,
}

impl Handle {
    /// The space of this name.
    pub fn named(&self, name: &str) -> Handle {
        let name = match *self.name == *name {
            true => self.name.clone(),
            false => name.into(),
        };
        Handle {
            name,
            ..self.clone()
        }
    }

    /// Executes a request that may write, wherever the space is led.
    ///
    /// Errors: it was refused, was not done, or nobody knows.
    pub async fn submit(&self, request: Request) -> Result<Done, Fault> {
        // ‡ Any other space is made on purpose, as a log is: a wrong letter in an address makes none.
        let makes = matches!(request, Request::Create(_) | Request::Limit(_));
        let makes = makes && *self.name == *SPACE;
        match self.post(request.clone()).await {
            Fate::NotHere if makes => {
                self.make().await?;
                let until = Instant::now() + APPEARS_WITHIN;
                loop {
                    match self.post(request.clone()).await {
                        Fate::NotHere if Instant::now() < until => sleep(LOOK_EVERY).await,
                        Fate::NotHere => return Err(Fault::not_now("the space is being made")),
                        fate => return answer_of(fate),
                    }
                }
            }
            Fate::NotHere => Err(self.absent().await),
            fate => answer_of(fate),
        }
    }

    async fn post(&self, request: Request) -> Fate {
        let (tell, told) = oneshot::channel();
        let submit = Submit {
            space: self.name.to_string(),
            request,
            asker: Box::new(Waits(tell)),
        };
        match self
            .office
            .post(MachineId::NOBODY, self.machine, Letter::new(submit))
        {
            // Without a word the machine is gone, and nobody knows what it had done.
            true => told.await.unwrap_or(Fate::Unknown),
            false => Fate::NotDone("this node is stopping".to_owned()),
        }
    }

    /// Looks at the rows: with all that was answered before, or (`stale`) as this node has them.
    ///
    /// Errors: nobody could say in time what is chosen, or there is no such space.
    async fn look<T: Send + 'static>(
        &self,
        stale: bool,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        match self.see(stale, look).await {
            Came::Seen(seen) => Ok(seen),
            Came::NotNow(why) => Err(Fault::not_now(why)),
            Came::NotHere => Err(self.absent().await),
            Came::Stopped => Err(stopped()),
        }
    }

    async fn see<T: Send + 'static>(
        &self,
        stale: bool,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Came<T> {
        let (tell, told) = oneshot::channel();
        let see = See {
            space: self.name.to_string(),
            stale,
            look: Box::new(move |seen| {
                let came = match seen {
                    Seen::Rows(view) => Came::Seen(look(view)),
                    Seen::NotNow(why) => Came::NotNow(why),
                    Seen::NotHere => Came::NotHere,
                };
                let _ = tell.send(came);
            }),
        };
        if !self
            .office
            .post(MachineId::NOBODY, self.machine, Letter::new(see))
        {
            return Came::Stopped;
        }
        told.await.unwrap_or(Came::Stopped)
    }

    /// Why a space that is not on this node has no streams.
    async fn absent(&self) -> Fault {
        let (spaces, name) = (self.spaces.clone(), self.name.clone());
        let found = tokio::task::spawn_blocking(move || spaces.find(&name)).await;
        match found {
            Ok(Space::Missing) if *self.name == *SPACE => Fault::not_found(),
            Ok(Space::Missing | Space::Other) => Fault::no_space(&self.name),
            Ok(Space::There) => Fault::not_now("this node does not have the space, or not yet"),
            Ok(Space::NotKnown(why)) => Fault::not_now(why),
            Err(_) => stopped(),
        }
    }

    async fn make(&self) -> Result<(), Fault> {
        let (spaces, name) = (self.spaces.clone(), self.name.clone());
        let made = tokio::task::spawn_blocking(move || spaces.make(&name)).await;
        match made {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(Fault::not_now(why)),
            Err(_) => Err(stopped()),
        }
    }

    /// Whole appends of a stream from a place on.
    pub async fn read(
        &self,
        path: Path,
        from: From,
        bytes_max: usize,
        stale: bool,
    ) -> Result<Found<Read>, Fault> {
        let look = move |view: &View<'_>| {
            let found = streams::read(&mut OfView(view), &path, from, bytes_max);
            found.map_err(fault_of)
        };
        self.look(stale, look).await?
    }

    /// The same with all that was answered before, and room for its bytes. ‡ It is taken where they are read: many may come at once, and what was
    /// read for them waits for a thread of the door.
    pub async fn read_counted(
        &self,
        path: Path,
        from: From,
        bytes_max: usize,
        answers: Answers,
    ) -> Result<(Found<Read>, Room), Fault> {
        let look = move |view: &View<'_>| {
            let found = streams::read(&mut OfView(view), &path, from, bytes_max);
            let found = found.map_err(fault_of)?;
            let bytes = match &found {
                Found::There(read) => read.bytes.len(),
                _ => 0,
            };
            Ok((found, answers.room_now(bytes)?))
        };
        self.look(false, look).await?
    }

    /// A stream as it stands.
    pub async fn stand(&self, path: Path) -> Result<Found<Standing>, Fault> {
        let look = move |view: &View<'_>| {
            let found = streams::stand(&mut OfView(view), &path);
            found.map_err(fault_of)
        };
        self.look(false, look).await?
    }

    pub async fn list(
        &self,
        prefix: String,
        after: Option<String>,
        streams_max: usize,
    ) -> Result<(Vec<streams::Listed>, Option<String>), Fault> {
        let look = move |view: &View<'_>| {
            let listed = streams::list(&mut OfView(view), &prefix, after.as_deref(), streams_max);
            listed.map_err(fault_of)
        };
        self.look(false, look).await?
    }

    /// The limits as this node has them.
    pub async fn limits_here(&self) -> LimitsHere {
        let look = |view: &View<'_>| streams::limits(&mut OfView(view)).ok();
        match self.see(true, look).await {
            Came::Seen(Some(limits)) => LimitsHere::Are(limits),
            Came::NotHere => LimitsHere::NotHere,
            Came::Seen(None) | Came::NotNow(_) | Came::Stopped => LimitsHere::NotNow,
        }
    }

    /// The limits, and how much of them is used.
    ///
    /// Errors: nobody could say in time.
    pub async fn usage(&self) -> Result<Usage, Fault> {
        let look = |view: &View<'_>| streams::usage(&mut OfView(view)).map_err(fault_of);
        match self.look(false, look).await {
            Ok(usage) => usage,
            // A space that is not made yet has no limits, and nothing in it.
            Err(fault) if fault.status == 404 && *self.name == *SPACE => Ok(Usage::default()),
            Err(fault) => Err(fault),
        }
    }

    /// Has a read noted, or a stream whose time is over removed, where the space is led: whoever is told of a stream is told so behind that.
    ///
    /// Errors: it is gone.
    pub async fn touch(&self, path: Path, uses: bool) -> Result<(), Fault> {
        match self.submit(Request::Touch { path, uses }).await?.answer {
            Answer::Refused(refusal) => Err(Fault::of(refusal)),
            _ => Ok(()),
        }
    }
}

fn answer_of(fate: Fate) -> Result<Done, Fault> {
    match fate {
        Fate::Answered { answer, is_again } => {
            let answer = Answer::decode(&answer).ok_or_else(unreadable)?;
            Ok(Done { answer, is_again })
        }
        Fate::NotDone(why) => Err(Fault::not_now(why)),
        Fate::NotHere => Err(Fault::not_found()),
        Fate::Unknown => Err(Fault::unknown()),
    }
}

fn fault_of<S: fmt::Display>(failed: Failed<S>) -> Fault {
    match failed {
        Failed::Unreadable => unreadable(),
        Failed::Stop(error) => Fault::new(
            500,
            "disk",
            format!("the rows of the space cannot be read: {error}"),
            "look after this node's disk, or ask another node",
        ),
    }
}
