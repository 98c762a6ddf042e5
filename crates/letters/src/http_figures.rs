//! Figures of a door for HTTP: its threads count, and its node tells them when it is asked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::figures::BOUNDS_US;

/// A number that several threads change.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn take(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum HttpMethod {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Other,
}

impl HttpMethod {
    pub const ALL: [HttpMethod; 8] = [
        HttpMethod::Get,
        HttpMethod::Head,
        HttpMethod::Post,
        HttpMethod::Put,
        HttpMethod::Patch,
        HttpMethod::Delete,
        HttpMethod::Options,
        HttpMethod::Other,
    ];

    pub fn of(method: &str) -> HttpMethod {
        match method {
            "GET" => HttpMethod::Get,
            "HEAD" => HttpMethod::Head,
            "POST" => HttpMethod::Post,
            "PUT" => HttpMethod::Put,
            "PATCH" => HttpMethod::Patch,
            "DELETE" => HttpMethod::Delete,
            "OPTIONS" => HttpMethod::Options,
            _ => HttpMethod::Other,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            HttpMethod::Get => "get",
            HttpMethod::Head => "head",
            HttpMethod::Post => "post",
            HttpMethod::Put => "put",
            HttpMethod::Patch => "patch",
            HttpMethod::Delete => "delete",
            HttpMethod::Options => "options",
            HttpMethod::Other => "other",
        }
    }
}

/// Classes of statuses, from 2xx on.
pub const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// The requests of one method.
#[derive(Debug, Default)]
pub struct MethodFigures {
    by_class: [Count; CLASSES.len()],
    /// By how long the answer took; the last is without bound.
    durations: [Count; BOUNDS_US.len() + 1],
    sum_us: Count,
}

impl MethodFigures {
    /// The counts of the classes, in their order.
    pub fn by_class(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.by_class.iter().map(Count::get);
        CLASSES.into_iter().zip(counts)
    }

    pub fn durations(&self) -> impl Iterator<Item = u64> {
        self.durations.iter().map(Count::get)
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us.get()
    }
}

/// All figures of such a door.
#[derive(Debug, Default)]
pub struct HttpFigures {
    methods: [MethodFigures; HttpMethod::ALL.len()],
    /// Connections now.
    pub clients: Count,
    pub connections: Count,
    /// Connections that were closed at once, since there were as many as may be.
    pub connections_refused: Count,
    /// Readers who wait for what comes, now.
    pub live_readers: Count,
    pub received_bytes: Count,
    pub sent_bytes: Count,
    /// Requests that were refused, by the code in their answer.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl HttpFigures {
    pub fn method(&self, method: HttpMethod) -> &MethodFigures {
        // There is one for each.
        &self.methods[method as usize]
    }

    /// Counts an answer. `took`: until its head was there; of one that waits for what comes nothing is said.
    pub fn count(&self, method: HttpMethod, status: u16, took: Option<Duration>) {
        let figures = self.method(method);
        let class = usize::from(status / 100).checked_sub(2);
        if let Some(count) = class.and_then(|class| figures.by_class.get(class)) {
            count.add(1);
        }
        let Some(took) = took else {
            return;
        };
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.partition_point(|bound_us| *bound_us < took_us);
        if let Some(count) = figures.durations.get(at) {
            count.add(1);
        }
        figures.sum_us.add(took_us);
    }

    pub fn count_refused(&self, code: &'static str) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(code).or_default() += 1;
    }

    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_by_its_method_its_class_and_its_time() {
        let figures = HttpFigures::default();
        figures.count(HttpMethod::Post, 204, Some(Duration::from_micros(250)));
        figures.count(HttpMethod::Post, 429, Some(Duration::from_secs(60)));
        figures.count(HttpMethod::Get, 200, None);
        figures.count(HttpMethod::Get, 999, None);
        let posts = figures.method(HttpMethod::Post);
        let classes: Vec<_> = posts.by_class().collect();
        assert_eq!(classes, [("2xx", 1), ("3xx", 0), ("4xx", 1), ("5xx", 0)]);
        let durations: Vec<u64> = posts.durations().collect();
        assert_eq!((durations[1], durations[16]), (1, 1));
        assert_eq!(posts.sum_us(), 60_000_250);
        let gets = figures.method(HttpMethod::Get);
        assert_eq!(gets.durations().sum::<u64>(), 0);
        figures.count_refused("slow-down");
        figures.count_refused("slow-down");
        assert_eq!(figures.refused(), BTreeMap::from([("slow-down", 2)]));
    }

    #[test]
    fn each_method_has_a_place_of_its_own_and_is_known_by_its_name() {
        for (at, method) in HttpMethod::ALL.into_iter().enumerate() {
            assert_eq!(method as usize, at);
            let upper = method.name().to_uppercase();
            assert_eq!(HttpMethod::of(&upper), method);
        }
        assert_eq!(HttpMethod::of("TRACE"), HttpMethod::Other);
    }
}
