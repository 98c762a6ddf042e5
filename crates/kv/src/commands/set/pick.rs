//! Members that nobody chose.

use std::collections::BTreeMap;

use resp::Value;

use crate::args::{Args, count, integer};
use crate::commands::Done;
use crate::fail::{Fail, fail, words};
use crate::rows::{Db, Entry, Kind, Member, Members, Sorted, drawn_hash};

/// How many are picked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Picked {
    /// Different ones, or all.
    Distinct(usize),
    /// Each anew: one may come again.
    Repeated(usize),
}

impl Picked {
    /// As commands say it: a negative count may repeat.
    pub fn of(word: &[u8]) -> Result<Picked, Fail> {
        let count = integer(word)?;
        if count == i64::MIN {
            return fail(words::ANY_COUNT);
        }
        let number = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(match count {
            0.. => Picked::Distinct(number),
            _ => Picked::Repeated(number),
        })
    }

    /// Twice as many values can still be counted.
    pub fn is_doubled(self) -> bool {
        let (Picked::Distinct(count) | Picked::Repeated(count)) = self;
        i64::try_from(count).is_ok_and(|count| count <= i64::MAX / 2)
    }
}

/// Up to so many members are read all, so that each is as likely as another.
const READ_MAX: usize = 1024;
/// A drawn item that may come again counts as so many bytes of the reply at least.
const DRAWN_BYTES_MIN: usize = 64;

/// A collection that is drawn from.
pub(crate) trait Pool {
    type Item: Clone + Default;

    fn length(&self) -> usize;
    fn everything(&self, db: &mut Db) -> Result<Vec<Self::Item>, Fail>;
    /// A few items from a hash on.
    fn some(&self, db: &mut Db, hash: u64, count: usize) -> Result<Vec<Self::Item>, Fail>;
    /// Asks for what `some` returns, from all of these hashes on.
    fn ask(&self, db: &mut Db, hashes: &[u64], count: usize) -> Result<(), Fail>;
    fn name(item: &Self::Item) -> &[u8];
    /// The bytes that an item adds to a reply.
    fn bytes(item: &Self::Item) -> usize;
}

impl Pool for Members {
    type Item = Member;

    fn length(&self) -> usize {
        self.len()
    }

    fn everything(&self, db: &mut Db) -> Result<Vec<Member>, Fail> {
        self.all(db)
    }

    fn some(&self, db: &mut Db, hash: u64, count: usize) -> Result<Vec<Member>, Fail> {
        Ok(self.page(db, hash, count)?.0)
    }

    fn ask(&self, db: &mut Db, hashes: &[u64], count: usize) -> Result<(), Fail> {
        self.ask_pages(db, hashes, count)
    }

    fn name(item: &Member) -> &[u8] {
        &item.0
    }

    fn bytes(item: &Member) -> usize {
        item.0.len() + item.1.len() + 16
    }
}

impl Pool for Sorted {
    type Item = Entry;

    fn length(&self) -> usize {
        self.len()
    }

    fn everything(&self, db: &mut Db) -> Result<Vec<Entry>, Fail> {
        self.all(db)
    }

    fn some(&self, db: &mut Db, hash: u64, count: usize) -> Result<Vec<Entry>, Fail> {
        Ok(self.page(db, hash, count)?.0)
    }

    fn ask(&self, db: &mut Db, hashes: &[u64], count: usize) -> Result<(), Fail> {
        self.ask_pages(db, hashes, count)
    }

    fn name(item: &Entry) -> &[u8] {
        &item.1
    }

    fn bytes(item: &Entry) -> usize {
        item.1.len() + 32
    }
}

/// Draws members.
///
/// A few of many are taken near drawn places: about as likely as each other, but not exactly.
pub(crate) fn drawn<P: Pool>(db: &mut Db, pool: &P, picked: Picked) -> Result<Vec<P::Item>, Fail> {
    let length = pool.length();
    if length == 0 {
        return Ok(Vec::new());
    }
    match picked {
        Picked::Distinct(0) | Picked::Repeated(0) => Ok(Vec::new()),
        Picked::Distinct(count) if count >= length => pool.everything(db),
        Picked::Distinct(count) if length <= READ_MAX || count > length / 8 => {
            let all = pool.everything(db)?;
            Ok(shuffled(db, all, count))
        }
        Picked::Distinct(count) => distinct(db, pool, count),
        Picked::Repeated(count) => repeated(db, pool, count),
    }
}

/// The first few of a random order (Fisher, Yates).
fn shuffled<T>(db: &mut Db, mut all: Vec<T>, count: usize) -> Vec<T> {
    for place in 0..count.min(all.len()) {
        let other = place + db.draw(all.len() - place);
        all.swap(place, other);
    }
    all.truncate(count);
    all
}

fn distinct<P: Pool>(db: &mut Db, pool: &P, count: usize) -> Result<Vec<P::Item>, Fail> {
    let mut found = BTreeMap::new();
    // Fewer than an eighth of all are wanted, so most are new.
    for _ in 0..32 {
        for item in scattered(db, pool, count - found.len())? {
            found.insert(P::name(&item).to_vec(), item);
        }
        if found.len() == count {
            break;
        }
    }
    Ok(found.into_values().collect())
}

fn repeated<P: Pool>(db: &mut Db, pool: &P, count: usize) -> Result<Vec<P::Item>, Fail> {
    if pool.length() > READ_MAX && count < pool.length() / 8 {
        return scattered(db, pool, count);
    }
    // Before the work is done: others wait for it.
    db.charge(count.saturating_mul(DRAWN_BYTES_MIN))?;
    let all = pool.everything(db)?;
    let mut drawn = Vec::new();
    for _ in 0..count {
        if let Some(item) = all.get(db.draw(all.len())) {
            db.charge(P::bytes(item).saturating_sub(DRAWN_BYTES_MIN))?;
            drawn.push(item.clone());
        }
    }
    Ok(drawn)
}

/// Items near so many drawn places.
fn scattered<P: Pool>(db: &mut Db, pool: &P, count: usize) -> Result<Vec<P::Item>, Fail> {
    let hashes: Vec<u64> = (0..count).map(|_| drawn_hash(db)).collect();
    pool.ask(db, &hashes, FEW)?;
    hashes
        .into_iter()
        .map(|hash| near(db, pool, hash))
        .collect()
}

/// The items from a place on, of which each is as likely as another.
const FEW: usize = 16;

fn near<P: Pool>(db: &mut Db, pool: &P, hash: u64) -> Result<P::Item, Fail> {
    let mut few = pool.some(db, hash, FEW)?;
    if few.is_empty() {
        few = pool.some(db, 0, FEW)?;
    }
    let at = db.draw(few.len());
    Ok(few.get(at).cloned().unwrap_or_default())
}

pub(crate) fn spop(db: &mut Db, args: &Args) -> Done {
    let key = args.at(1);
    if args.len() > 3 {
        return fail(words::SYNTAX);
    }
    let wanted = match args.len() {
        2 => 1,
        _ => count(args.at(2), words::NOT_POSITIVE)?,
    };
    let mut set = Members::open(db, key, Kind::Set)?;
    let picked = drawn(db, &set, Picked::Distinct(wanted))?;
    let names: Vec<&[u8]> = picked.iter().map(|(name, _)| name.as_slice()).collect();
    set.ask(db, &names)?;
    for (member, _) in &picked {
        set.remove(db, member)?;
    }
    set.close(db)?;
    let mut names = picked.into_iter().map(|(name, _)| Value::Bulk(name));
    match args.len() {
        2 => Ok(names.next().unwrap_or(Value::Null)),
        _ => Ok(Value::Set(names.collect())),
    }
}

pub(crate) fn srandmember(db: &mut Db, args: &Args) -> Done {
    if args.len() > 3 {
        return fail(words::SYNTAX);
    }
    let picked = match args.len() {
        2 => Picked::Distinct(1),
        _ => Picked::of(args.at(2))?,
    };
    let set = Members::peek(db, args.at(1), Kind::Set)?;
    let picked = drawn(db, &set, picked)?;
    let mut names = picked.into_iter().map(|(name, _)| Value::Bulk(name));
    match args.len() {
        2 => Ok(names.next().unwrap_or(Value::Null)),
        _ => Ok(Value::Array(names.collect())),
    }
}
