//! PING, HELLO, CLIENT: about the connection.

use letters::Shown;
use resp::{Protocol, Value};

use super::{REDIS_VERSION, error, is, no_subcommand, number, text, wrong_count};
use crate::client::{Client, Wants};

pub const NO_CACHE: &str =
    "ERR no client is told here of changes of what it keeps: turn the client's cache off";

pub fn ping(words: &[&[u8]]) -> Value {
    match words {
        [_] => Value::Simple("PONG".into()),
        [_, said] => Value::bulk(*said),
        _ => error("ERR wrong number of arguments for 'ping' command"),
    }
}

pub fn select(words: &[&[u8]]) -> Value {
    match words.get(1).map(|word| number(word)) {
        Some(Ok(0)) => Value::OK,
        Some(Ok(_)) => error("ERR SELECT is not allowed in cluster mode"),
        _ => error("ERR invalid DB index"),
    }
}

/// `authenticate`: who somebody is that shows a name and a secret.
pub fn hello(
    client: &mut Client,
    words: &[&[u8]],
    authenticate: impl Fn(&[u8], &[u8]) -> Result<Shown, Value>,
) -> Value {
    let mut shown = None;
    let mut protocol = client.protocol;
    if let Some(version) = words.get(1) {
        protocol = match number(version) {
            Ok(2) => Protocol::Resp2,
            Ok(3) => Protocol::Resp3,
            Ok(_) => return error("NOPROTO unsupported protocol version"),
            Err(_) => {
                return error("ERR Protocol version is not an integer or out of range");
            }
        };
    }
    let mut name = None;
    let mut rest = words.get(2..).unwrap_or_default();
    while let [option, ..] = rest {
        rest = match rest {
            [_, user, secret, rest @ ..] if is(option, "auth") => {
                match authenticate(user, secret) {
                    Ok(who) => shown = Some(who),
                    Err(value) => return value,
                }
                rest
            }
            [_, called, rest @ ..] if is(option, "setname") => {
                name = Some(*called);
                rest
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return error(format!("ERR Syntax error in HELLO option '{option}'"));
            }
        };
    }
    if let Some(name) = name {
        if !is_name(name) {
            return bad_name();
        }
        client.name = name.to_vec();
    }
    client.protocol = protocol;
    if let Some(shown) = shown {
        client.shown = shown;
    }
    let version = match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    };
    Value::Map(vec![
        (text("server"), text("redis")),
        (text("version"), text(REDIS_VERSION)),
        (text("proto"), Value::Integer(version)),
        (text("id"), Value::Integer(client.id as i64)),
        (text("mode"), text("cluster")),
        (text("role"), text("master")),
        (text("modules"), Value::Array(Vec::new())),
    ])
}

/// The longest name of a client, or of its library.
const NAME_BYTES_MAX: usize = 1_024;

fn is_name(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn bad_name() -> Value {
    error(
        "ERR Client names cannot contain spaces, newlines or special characters, nor more than 1024 bytes.",
    )
}

/// One line of CLIENT LIST.
pub fn line(client: &Client) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "id={} addr={} name={} flags={} db=0 multi={} watch={} qbuf={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
        client.id,
        client.peer,
        text(&client.name),
        if client.transaction.is_some() {
            "x"
        } else {
            "N"
        },
        client
            .transaction
            .as_ref()
            .map_or(-1, |transaction| transaction.commands.len() as i64),
        i32::from(client.watches),
        client.input_bytes(),
        if client.protocol == Protocol::Resp3 {
            3
        } else {
            2
        },
        text(&client.library[0]),
        text(&client.library[1]),
    )
}

/// CLIENT, but for LIST, which is about others. `None`: there is no answer.
pub fn client(client: &mut Client, words: &[&[u8]]) -> Option<Value> {
    let Some(subcommand) = words.get(1) else {
        return Some(error("ERR wrong number of arguments for 'client' command"));
    };
    let value = match words.get(2..).unwrap_or_default() {
        [] if is(subcommand, "id") => Value::Integer(client.id as i64),
        [] if is(subcommand, "getname") => match client.name.is_empty() {
            true => Value::Null,
            false => Value::bulk(client.name.clone()),
        },
        [name] if is(subcommand, "setname") => match is_name(name) {
            true => {
                client.name = name.to_vec();
                Value::OK
            }
            false => bad_name(),
        },
        [what, value] if is(subcommand, "setinfo") => {
            let place = match () {
                () if is(what, "lib-name") => 0,
                () if is(what, "lib-ver") => 1,
                () => {
                    let what = String::from_utf8_lossy(what);
                    return Some(error(format!("ERR Unrecognized option '{what}'")));
                }
            };
            if !is_name(value) {
                let what = String::from_utf8_lossy(what).to_lowercase();
                return Some(error(format!(
                    "ERR {what} cannot contain spaces, newlines or special characters, nor more than 1024 bytes."
                )));
            }
            client.library[place] = value.to_vec();
            Value::OK
        }
        [] if is(subcommand, "info") => {
            Value::Verbatim(*b"txt", (line(client) + "\n").into_bytes())
        }
        [how] if is(subcommand, "reply") => match () {
            () if is(how, "on") => {
                client.wants = Wants::All;
                Value::OK
            }
            () if is(how, "off") => {
                client.wants = Wants::None;
                return None;
            }
            () if is(how, "skip") => {
                if client.wants == Wants::All {
                    client.wants = Wants::AllButNext;
                }
                return None;
            }
            () => error("ERR syntax error"),
        },
        [_] if is(subcommand, "no-evict") || is(subcommand, "no-touch") => Value::OK,
        [] if is(subcommand, "getredir") => Value::Integer(-1),
        [] if is(subcommand, "unpause") => Value::OK,
        // Nothing is kept by a client that turns its cache on like that, until it says so with CLIENT CACHING.
        [how, options @ ..]
            if is(subcommand, "tracking")
                && (is(how, "off") || options.iter().any(|option| is(option, "optin"))) =>
        {
            Value::OK
        }
        [yes] if is(subcommand, "caching") && is(yes, "yes") => {
            client.refuses_next = true;
            error(NO_CACHE)
        }
        _ if [
            "tracking",
            "trackinginfo",
            "caching",
            "pause",
            "kill",
            "unblock",
        ]
        .iter()
        .any(|name| is(subcommand, name)) =>
        {
            let name = String::from_utf8_lossy(subcommand).to_uppercase();
            error(format!("ERR CLIENT {name} is not supported here"))
        }
        _ if [
            "id", "getname", "setname", "setinfo", "info", "reply", "no-evict", "getredir",
        ]
        .iter()
        .any(|name| is(subcommand, name)) =>
        {
            wrong_count("client", subcommand)
        }
        _ => no_subcommand("CLIENT", subcommand),
    };
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_turn_its_cache_on_and_keeps_nothing() {
        let mut connection = Client::new(1, "somebody".to_owned(), Shown::Nothing);
        let mut ask = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let answer = client(&mut connection, &words);
            (answer == Some(Value::OK), connection.refuses_next)
        };
        assert_eq!(ask("CLIENT TRACKING ON OPTIN"), (true, false));
        assert_eq!(ask("CLIENT TRACKING OFF"), (true, false));
        assert_eq!(ask("CLIENT TRACKING ON"), (false, false));
        assert_eq!(ask("CLIENT TRACKING ON BCAST"), (false, false));
        assert_eq!(ask("CLIENT CACHING YES"), (false, true));
    }
}
