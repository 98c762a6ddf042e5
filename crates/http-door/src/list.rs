//! Lists of streams: what its asker may read of a space.

use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::json;
use streams::Listed;

use crate::body::Body;
use crate::fault::Fault;
use crate::query::List;
use crate::read::set;
use crate::rights::Asker;
use crate::serve::Door;

/// A part of a list: streams in the order of their names, and the name behind which there may be more.
type Part = (Vec<Listed>, Option<String>);

impl Door {
    /// ‡ The streams that its asker may read. Nothing else is looked at: neither its names nor how many there are can be told from the answer, and
    /// to whom nothing is granted in a space each space looks as if it were empty.
    pub async fn list(
        &self,
        space: &str,
        list: &List,
        asker: &Asker,
    ) -> Result<Response<Body>, Fault> {
        let mut parts = Vec::new();
        let rows = self.space(space);
        for (path, is_prefix) in self.readable(asker, space) {
            let Some((begin, is_prefix)) = both(&list.prefix, &path, is_prefix) else {
                continue;
            };
            let limit = if is_prefix { list.limit } else { 1 };
            let after = list.after.clone();
            let listed = rows.list(begin.clone(), after, limit);
            let (mut listed, more) = listed.await?;
            if !is_prefix {
                listed.retain(|listed| listed.path == begin);
            }
            parts.push((listed, more.filter(|_| is_prefix)));
        }
        let (mut listed, more) = together(parts, list.limit);
        // It may have been revoked meanwhile.
        listed.retain(|listed| self.may_read(asker, space, &listed.path));
        Ok(answer(&listed, more.as_deref()))
    }
}

/// The part of what may be read that begins as was asked for.
fn both(asked: &str, path: &str, is_prefix: bool) -> Option<(String, bool)> {
    match (
        path.starts_with(asked),
        is_prefix && asked.starts_with(path),
    ) {
        (true, _) => Some((path.to_owned(), is_prefix)),
        (_, true) => Some((asked.to_owned(), true)),
        (false, false) => None,
    }
}

/// One list of several, in the order of names. Where one of them goes on the others are told no further.
fn together(parts: Vec<Part>, limit: usize) -> Part {
    let mut more = parts.iter().filter_map(|(_, more)| more.clone()).min();
    let mut listed: Vec<Listed> = parts.into_iter().flat_map(|(listed, _)| listed).collect();
    listed.sort_by(|one, other| one.path.cmp(&other.path));
    if let Some(more) = &more {
        listed.retain(|listed| listed.path <= *more);
    }
    if listed.len() > limit {
        listed.truncate(limit);
        more = listed.last().map(|listed| listed.path.clone());
    }
    (listed, more)
}

fn answer(listed: &[Listed], after: Option<&str>) -> Response<Body> {
    let streams = listed.iter().map(|listed| {
        let place = &listed.standing.place;
        json!({
            "name": listed.path,
            "type": place.media.as_str(),
            "bytes": place.tail.position,
            "tail": place.tail.to_string(),
            "closed": place.is_closed,
        })
    });
    let streams: Vec<_> = streams.collect();
    let text = json!({"streams": streams, "after": after});
    let mut response = Response::new(Body::from(format!("{text}\n")));
    let answered = response.headers_mut();
    answered.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    set(answered, CACHE_CONTROL, "no-store");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_narrowed_to_what_may_be_read() {
        let told = |text: &str, is_prefix| Some((text.to_owned(), is_prefix));
        assert_eq!(both("", "chat/", true), told("chat/", true));
        assert_eq!(both("chat/4", "chat/", true), told("chat/4", true));
        assert_eq!(both("ch", "chat", false), told("chat", false));
        assert_eq!(both("chat/4", "chat", false), None);
        assert_eq!(both("a", "b", true), None);
    }
}
