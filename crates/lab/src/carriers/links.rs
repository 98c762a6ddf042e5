//! The connections of a way: a send is answered once its window has room, and what is known without a letter waits to be told.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use carrier::News;
use ops::{ConnId, Slice};

use super::window::Window;

/// One end of a connection, as a way has it.
pub struct End<L> {
    pub link: L,
    window: Arc<Window>,
    /// Sends that are not answered.
    owed: usize,
}

/// All of a node's, by their numbers.
pub struct Links<L> {
    all: BTreeMap<ConnId, End<L>>,
    told: VecDeque<News>,
}

impl<L> Default for Links<L> {
    fn default() -> Links<L> {
        Links {
            all: BTreeMap::new(),
            told: VecDeque::new(),
        }
    }
}

impl<L> Links<L> {
    /// `window`: of what the node sends.
    pub fn insert(&mut self, conn: ConnId, window: Arc<Window>, link: L) {
        let owed = 0;
        self.all.insert(conn, End { link, window, owed });
    }

    pub fn get(&self, conn: ConnId) -> Option<&L> {
        self.all.get(&conn).map(|end| &end.link)
    }

    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut L> {
        self.all.get_mut(&conn).map(|end| &mut end.link)
    }

    pub fn window(&self, conn: ConnId) -> Option<Arc<Window>> {
        self.all.get(&conn).map(|end| end.window.clone())
    }

    pub fn remove(&mut self, conn: ConnId) -> Option<L> {
        self.all.remove(&conn).map(|end| end.link)
    }

    /// The node sends these: true if there is room for more. `None`: the connection is no more, and that is told.
    pub fn send(&mut self, conn: ConnId, slices: &[Slice]) -> Option<bool> {
        let Some(end) = self.all.get_mut(&conn) else {
            self.tell(News::Broke { conn });
            return None;
        };
        end.owed += 1;
        Some(end.window.add(slices.iter().map(|slice| slice.len()).sum()))
    }

    /// There is room: all sends are answered.
    pub fn settle(&mut self, conn: ConnId) {
        if let Some(end) = self.all.get_mut(&conn) {
            let owed = std::mem::take(&mut end.owed);
            let sent = std::iter::repeat_with(|| News::Sent { conn }).take(owed);
            self.told.extend(sent);
        }
    }

    pub fn tell(&mut self, news: News) {
        self.told.push_back(news);
    }

    pub fn tell_connected(&mut self, conn: ConnId, result: io::Result<()>) {
        self.tell(News::Connected { conn, result });
    }

    pub fn take_told(&mut self) -> Option<News> {
        self.told.pop_front()
    }

    pub fn is_quiet(&self) -> bool {
        self.told.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::WINDOW;
    use super::*;

    #[test]
    fn sends_are_answered_when_there_is_room_and_not_before() {
        let conn = ConnId(2);
        let mut links = Links::default();
        let window = Arc::<Window>::default();
        links.insert(conn, window.clone(), ());
        let slices = [Slice::copied_from(&[7; 1000])];
        assert_eq!(links.send(conn, &slices), Some(true));
        links.settle(conn);
        assert!(matches!(links.take_told(), Some(News::Sent { .. })));
        window.add(WINDOW);
        assert_eq!(links.send(conn, &slices), Some(false));
        assert_eq!(links.send(conn, &slices), Some(false));
        assert!(links.is_quiet());
        links.settle(conn);
        assert!(links.take_told().is_some() && links.take_told().is_some() && links.is_quiet());
        assert!(links.remove(conn).is_some());
        assert_eq!(links.send(conn, &slices), None);
        assert!(matches!(links.take_told(), Some(News::Broke { .. })));
    }
}
