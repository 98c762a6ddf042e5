//! Statuses: those that an operation describes are those that it can be answered with, and no others. Each error's is taken from the error itself.

use std::collections::BTreeSet;

use hyper::Method;
use streams::{MediaType, Offset, Place, Refusal};

use super::tests::{described, example_of};
use crate::fault::Fault;
use crate::log::{NoLog, fault_of};
use crate::route::Route;

type Statuses = BTreeSet<u16>;

/// Statuses that no error has in one place: each is named with whoever answers it.
const KEPT_OUT: &[u16] = &[403]; // guard::check, Door::judge
const NO_GOOD_TOKEN: &[u16] = &[401]; // Door::asker
const FULL: &[u16] = &[503]; // Door::admitted
const TOO_MUCH: &[u16] = &[429]; // Quota::take
const BAD_ADDRESS: &[u16] = &[400]; // Name::in_address, log_name, space_name
const UNREADABLE: &[u16] = &[500]; // space::fault_of
const BAD_BODY: &[u16] = &[400, 408, 413]; // Door::take
const BAD_UPLOAD: &[u16] = &[400, 408]; // Upload::next
const PACKED: &[u16] = &[415, 501]; // headers::check_encoding
const GONE: &[u16] = &[404, 410]; // read::found

fn of(parts: &[&[u16]]) -> Statuses {
    parts.concat().into_iter().collect()
}

fn place() -> Place {
    Place {
        id: 1,
        media: MediaType::new("text/plain").expect("a type"),
        tail: Offset {
            lineage: 1,
            position: 0,
        },
        is_closed: true,
    }
}

fn refusals(refusals: Vec<Refusal>) -> Vec<u16> {
    let faults = refusals.into_iter().map(Fault::of);
    faults.map(|fault| fault.status).collect()
}

fn of_create() -> Vec<u16> {
    refusals(vec![
        Refusal::Differs,
        Refusal::Exists,
        Refusal::SourceNotFound,
        Refusal::SourceDeleted,
        Refusal::ForkOffset,
        Refusal::ForkSub,
        Refusal::ForkMedia,
        Refusal::ForkDepth,
        Refusal::ManyStreams,
        Refusal::StreamsLimit { streams: 1 },
        Refusal::ManyBytes { bytes: 1 },
        Refusal::Full,
        Refusal::Unreadable,
    ])
}

fn of_append() -> Vec<u16> {
    let is = place().media;
    refusals(vec![
        Refusal::NotFound,
        Refusal::Deleted,
        Refusal::Closed(place()),
        Refusal::Media { is },
        Refusal::StaleEpoch { current: 1 },
        Refusal::EpochBegins,
        Refusal::Gap {
            expected: 1,
            received: 2,
        },
        Refusal::Unexpected(place()),
        Refusal::Sequence {
            last: String::new(),
        },
        Refusal::ManyProducers,
        Refusal::ManyBytes { bytes: 1 },
        Refusal::OtherBody { sequence: 1 },
        Refusal::NotJson(String::new()),
        Refusal::EmptyBody,
        Refusal::Full,
        Refusal::Unreadable,
    ])
}

fn no_log(whys: Vec<NoLog>) -> Vec<u16> {
    whys.into_iter().map(|why| fault_of(why).status).collect()
}

/// Whatever is done with a log, whoever holds it may answer so.
fn of_any_log() -> Vec<u16> {
    let why = String::new;
    let mut statuses = no_log(vec![
        NoLog::Unknown,
        NoLog::Unauthenticated(why()),
        NoLog::Forbidden(why()),
        NoLog::Bad(why()),
        NoLog::Refused(why()),
        NoLog::NotNow(why()),
        NoLog::NotKnown(why()),
    ]);
    statuses.push(Fault::other_kind("a", "streams").status);
    statuses
}

fn of_log_read() -> Vec<u16> {
    no_log(vec![
        NoLog::UnknownStream,
        NoLog::Trimmed { from: None },
        NoLog::Trimmed { from: Some(1) },
        NoLog::PastEnd { length: 1 },
    ])
}

fn of_log_append() -> Vec<u16> {
    no_log(vec![
        NoLog::Busy,
        NoLog::Superseded,
        NoLog::Continues {
            length: 1,
            by: None,
        },
        NoLog::UnknownStream,
        NoLog::Full(String::new()),
        NoLog::Damaged(String::new()),
    ])
}

/// All that this request can be answered with.
fn answered(method: &Method, route: &Route) -> Statuses {
    if *route == Route::Preflight {
        return of(&[&[204], NO_GOOD_TOKEN, FULL]);
    }
    let any = [KEPT_OUT, NO_GOOD_TOKEN, FULL].concat();
    let stream = [&any[..], BAD_ADDRESS, TOO_MUCH, UNREADABLE].concat();
    let log = [&any[..], BAD_ADDRESS, &of_any_log()].concat();
    match route {
        Route::Create(_) => of(&[&[200, 201], &stream, BAD_BODY, PACKED, &of_create(), GONE]),
        Route::Append(_) => of(&[&[200, 204], &stream, BAD_BODY, PACKED, &of_append()]),
        Route::Read(_) => of(&[&[200, 204, 206, 304, 416], &stream, GONE]),
        Route::Stand(_) => of(&[&[200], &stream, GONE]),
        Route::Delete(_) => of(&[&[204], &stream, GONE]),
        // If-None-Match, and the bytes that come with it.
        Route::CreateLog(_) => of(&[&[200, 201, 412], &log, BAD_UPLOAD, PACKED, &of_log_append()]),
        // If-Match.
        Route::AppendLog(_) => of(&[&[204, 412], &log, BAD_UPLOAD, PACKED, &of_log_append()]),
        // Range, and bytes that are not what they should be.
        Route::ReadLog(_) => of(&[
            &[200, 204, 206, 304, 416],
            &log,
            &of_log_read(),
            &no_log(vec![NoLog::Damaged(String::new())]),
        ]),
        Route::StandLog(_) => of(&[&[200], &log, &of_log_read()]),
        Route::DeleteLog(_) => of(&[&[204], &log]),
        // Without a space there is no list.
        Route::List(_) => of(&[&[200, 404], &any, BAD_ADDRESS, TOO_MUCH, UNREADABLE]),
        // ‡ Whom no grant tells of the cluster is told the same as of what is not there.
        Route::ShowLimits(_) => of(&[&[200, 404], &any, BAD_ADDRESS, UNREADABLE]),
        Route::SetLimits(_) => of(&[&[200, 404], &any, BAD_BODY, PACKED, UNREADABLE]),
        Route::Health | Route::Description => of(&[&[200], &any]),
        Route::Preflight => unreachable!("{method}: it was answered above"),
    }
}

#[test]
fn statuses_that_are_described_are_answered_and_no_others_are() {
    let described = described();
    let (mut count, mut wrong) = (0, Vec::new());
    for (path, methods) in described["paths"].as_object().expect("paths") {
        let address = path.replace("{name}", &example_of(methods));
        for (name, operation) in methods.as_object().expect("methods") {
            let Some(responses) = operation["responses"].as_object() else {
                continue;
            };
            let method = Method::from_bytes(name.to_uppercase().as_bytes()).expect("a method");
            let route = Route::of(&method, &address).expect("a route");
            let told = responses
                .keys()
                .map(|status| status.parse().expect("a status"));
            let told: Statuses = told.collect();
            let is = answered(&method, &route);
            let missing: Vec<_> = is.difference(&told).collect();
            let never: Vec<_> = told.difference(&is).collect();
            if !missing.is_empty() || !never.is_empty() {
                wrong.push(format!(
                    "{method} {path}: not described {missing:?}, never answered {never:?}"
                ));
            }
            for (status, response) in responses {
                // Every error has the one form; whoever asks by HEAD gets no body.
                let form = &response["content"]["application/json"]["schema"]["$ref"];
                let is_error = form == "#/components/schemas/Error";
                let has_form = is_error == (status.as_str() >= "400") || method == Method::HEAD;
                if !has_form {
                    wrong.push(format!("{method} {path}: {status} has another form"));
                }
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 20, "each operation was looked at");
}
