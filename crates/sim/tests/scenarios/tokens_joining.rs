//! Tokens that let one node in.

use crate::stage::Stage;
use crate::tokens::{By, answer, ask, code, done, guarded, put_line, token};

/// A node's word that it joins, with this disk.
fn join(number: u8) -> String {
    let disk = format!("{number:02x}").repeat(16);
    format!("join address=host:{number} disk={disk} speaks=1-2")
}

/// ‡ Two come at once: both are let in by the leader's look, and one of them by log 0.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_token_that_is_good_once_lets_one_node_in_and_the_same_one_again() {
    let (mut stage, root) = guarded(9);
    let by_root = By::Token(&root);
    let once = token("once", 2);
    let other = format!(
        "{} once=1",
        put_line(&once, "join on cluster\nread on log/a")
    );
    let refused = done(&mut stage, by_root, &other);
    assert_eq!(code(&refused), "bad-request", "{refused}");
    let line = format!("{} once=1", put_line(&once, "join on cluster"));
    let made = done(&mut stage, by_root, &line);
    assert!(made.contains("\"once\":true"), "{made}");
    let by = By::Token(&once);
    let (leader, _) = directing(&mut stage, by_root);
    let both = [40, 41].map(|number| ask(&mut stage, leader, by, &join(number)));
    stage.wait("both to be answered", |_| {
        both.iter().all(|one| one.is_over())
    });
    let texts = both.map(|one| one.text());
    let let_in: Vec<usize> = (0..2).filter(|at| texts[*at].starts_with("ok ")).collect();
    assert_eq!(let_in.len(), 1, "{texts:?}");
    let (first, second) = (40 + let_in[0] as u8, 41 - let_in[0] as u8);
    let refused = &texts[1 - let_in[0]];
    assert_eq!(code(refused), "forbidden", "{refused}");
    // The one that was let in may not have heard it: it is told the same again. Nobody else is let in, whatever happens to the leader.
    for round in 0..2 {
        let again = done(&mut stage, by, &join(first));
        assert_eq!(again, texts[let_in[0]], "round {round}");
        for number in [second, 42] {
            let refused = done(&mut stage, by, &join(number));
            assert_eq!(code(&refused), "forbidden", "{refused}");
            assert!(refused.contains("--once"), "it names what helps: {refused}");
        }
        let (leader, _) = directing(&mut stage, by_root);
        stage.crash(leader);
        stage.restart(leader);
    }
    let nodes = done(&mut stage, by_root, "members");
    let joined = nodes.matches("\"address\":\"host:4").count();
    assert_eq!(joined, 1, "{nodes}");
    // A new secret is for the same node.
    let hash = "6".repeat(64);
    let rotated = done(
        &mut stage,
        by_root,
        &format!("rotate-token once sha256={hash} overlap=60000"),
    );
    assert!(rotated.contains("\"joined\":"), "{rotated}");
    let refused = done(&mut stage, by, &join(second));
    assert_eq!(code(&refused), "forbidden", "{refused}");
}

/// The node that leads log 0.
fn directing(stage: &mut Stage, by: By<'_>) -> (usize, String) {
    for _ in 0..100 {
        for index in 0..stage.nodes.len() {
            let text = answer(stage, index, by, "members");
            if text.starts_with("ok ") {
                return (index, text);
            }
        }
        stage.pass(100 * crate::stage::MS);
    }
    panic!("nobody leads log 0");
}
