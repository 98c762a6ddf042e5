//! The history of an object that only grows, as `history::check` reads it: tokens in the place of bytes.
//!
//! A client's tokens that were answered are a chain: a connection's commands take effect in their order. One that was never answered is a
//! chain of its own, for it may have been done late or never. One that was refused was appended by nobody.

use std::collections::BTreeMap;

use history::{Action, Extent, Operation};

use super::book::Growing;
use super::token::Token;

/// The chains of tokens without an answer begin here.
const FIRST_OPEN_CHAIN: u32 = 1_000_000;
/// The chain of tokens that nobody appended.
const NOBODYS_CHAIN: u32 = 0;

pub fn operations(growing: &Growing) -> Vec<Operation> {
    let mut places: BTreeMap<Token, (u32, u64)> = BTreeMap::new();
    let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
    let mut open = FIRST_OPEN_CHAIN;
    let mut all = Vec::new();
    let mut pushes: Vec<_> = growing.pushes.iter().collect();
    pushes.sort_by_key(|push| push.call);
    for push in &pushes {
        let chain = match push.answer {
            Some(_) => push.client,
            None => {
                open += 1;
                open
            }
        };
        let from = *lengths.entry(chain).or_default();
        lengths.insert(chain, from + 1);
        places.insert(push.call, (chain, from));
        let to = from + 1;
        all.push(Operation {
            client: push.client,
            action: Action::Append { chain, from, to },
            invoked: push.invoked,
            completed: push.completed,
        });
    }
    let extents = |tokens: &[Token]| -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for token in tokens {
            let place = places.get(token).copied();
            let (chain, from) = place.unwrap_or((NOBODYS_CHAIN, 0));
            match extents.last_mut() {
                Some(last) if last.chain == chain && last.to == from => last.to += 1,
                _ => extents.push((chain, from, from + 1).into()),
            }
        }
        extents
    };
    // Whoever pushed saw where its token stands.
    for push in pushes {
        if let Some(length) = push.answer {
            all.push(Operation {
                client: push.client,
                action: Action::Read {
                    from: length.saturating_sub(1),
                    length,
                    seen: extents(&[push.call]),
                },
                invoked: push.invoked,
                completed: push.completed,
            });
        }
    }
    for look in &growing.looks {
        all.push(Operation {
            client: look.client,
            action: Action::Read {
                from: look.from,
                length: look.length,
                seen: extents(&look.tokens),
            },
            invoked: look.invoked,
            completed: Some(look.completed),
        });
    }
    all.sort_by_key(|operation| operation.invoked);
    all
}

#[cfg(test)]
mod tests {
    use super::super::book::Look;
    use super::*;
    use history::Timed;

    fn token(client: u32, number: u32) -> Token {
        Token { client, number }
    }

    fn push(call: Token, answer: Option<u64>, invoked: u64) -> Timed<Token, u64> {
        Timed {
            client: call.client,
            call,
            completed: answer.map(|_| invoked + 5),
            answer,
            invoked,
        }
    }

    fn look(from: u64, tokens: &[Token], invoked: u64) -> Look {
        Look {
            client: 9,
            from,
            length: from + tokens.len() as u64,
            tokens: tokens.to_vec(),
            invoked,
            completed: invoked + 5,
        }
    }

    fn is_possible(growing: &Growing) -> bool {
        history::check(&operations(growing)).is_ok_and(|violations| violations.is_empty())
    }

    #[test]
    fn what_was_answered_stands_in_its_order_and_what_was_not_anywhere_or_nowhere() {
        let (a, b, open) = (token(1, 1), token(1, 3), token(1, 2));
        let pushes = vec![
            push(a, Some(1), 10),
            push(open, None, 20),
            push(b, Some(2), 30),
        ];
        let seen = |tokens: &[Token]| Growing {
            pushes: pushes.clone(),
            looks: vec![look(0, tokens, 100)],
        };
        assert!(is_possible(&seen(&[a, b])));
        assert!(is_possible(&seen(&[a, b, open])));
        assert!(
            !is_possible(&seen(&[a, open, b])),
            "b was told that it is the second"
        );
        assert!(!is_possible(&seen(&[b, a])));
        assert!(!is_possible(&seen(&[a])), "b was answered");
    }

    #[test]
    fn what_was_refused_is_nobodys() {
        let (a, refused) = (token(1, 1), token(1, 2));
        let growing = Growing {
            pushes: vec![push(a, Some(1), 10)],
            looks: vec![look(0, &[a, refused], 100)],
        };
        assert!(!is_possible(&growing));
    }
}
