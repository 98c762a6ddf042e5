//! Words that nodes pass on for others, said by somebody who has not proved that he is a node.

use formats::LogId;
use formats::frame::{AskDigest, FetchBytes, Frame, Piece, encode_control};
use formats::version::TOKENS;
use paxos::{StreamName, StreamPosition};

use crate::past::overheard;
use crate::stage::{LOG, SECOND};
use crate::tokens::{By, done, guarded, sha256, token};

/// The token that somebody wants to have made.
fn mine() -> access::Token {
    token("mine", 7)
}

/// What a node is asked by its peers, of which each answer or effect would be too much.
fn words(stream: StreamName) -> Vec<(&'static str, Frame)> {
    let line = |line: String| format!("logberg/1 {line}\n").into_bytes();
    let piece = |log: u32, request: u64, bytes: Vec<u8>| Piece {
        log: LogId(log),
        request,
        bytes,
    };
    let put = format!(
        "put-token mine sha256={} grants=all%20on%20* as=socket came=here",
        sha256(&mine())
    );
    let note = r#"note by={"token":"root"} at=1 from=here what=lied"#.to_owned();
    let (log, from, to) = (LogId(1), StreamPosition(0), StreamPosition(64));
    vec![
        ("a token", Frame::AskDirector(piece(0, 1, line(put)))),
        (
            "no token",
            Frame::AskDirector(piece(0, 2, line("set-auth off as=socket".to_owned()))),
        ),
        (
            "a log",
            Frame::AskDirector(piece(0, 3, line("create-log lied as=socket".to_owned()))),
        ),
        ("a note", Frame::AskDirector(piece(0, 1 << 63, line(note)))),
        ("rows", Frame::AskPiece(piece(1, 5, vec![0; 16]))),
        ("a group", Frame::AskGroup(piece(1, 6, vec![0; 16]))),
        ("slots", Frame::WantSlots(b"{}".to_vec())),
        (
            "bytes",
            Frame::FetchBytes(FetchBytes {
                log,
                request: 7,
                stream,
                from,
                to,
            }),
        ),
        (
            "a digest",
            Frame::AskDigest(AskDigest {
                log,
                request: 8,
                stream,
                from,
                to,
            }),
        ),
    ]
}

/// ‡ Whoever has not answered the challenge, and whoever is in no list, hears the welcome and nothing else, and nothing comes of it.
#[cfg_attr(not(feature = "mutations"), test)]
fn who_has_not_proved_that_he_is_a_node_is_told_nothing_and_changes_nothing() {
    let (mut stage, root) = guarded(12);
    let by_root = By::Token(&root);
    let leader = stage.leader();
    let append = format!("append {LOG}");
    let mut writer = crate::tokens::ask(&mut stage, leader, by_root, &append);
    stage.wait("the stream to open", |_| writer.is_open());
    stage.say_and_wait(&mut writer, 1_000);
    let stream = wire::parse_stream(&writer.stream()).expect("a stream's name");
    let away = (leader + 1) % 3;
    stage.crash(away);
    let before = done(&mut stage, by_root, "audit");
    let cluster = overheard(&stage, away, leader, "");
    let cluster = cluster.split(' ').find(|word| word.starts_with("cluster="));
    let cluster = cluster.expect("it has one").to_owned();
    for to in (0..3).filter(|to| *to != away) {
        let id = stage.look().node(to).expect("it runs").id();
        let places = "address=x:1 speaks=1-2";
        let unlisted = "4c42".to_owned() + &"7".repeat(28);
        let greetings = [
            // One that was overheard, and is signed.
            overheard(&stage, away, to, places),
            // A node that nobody knows, and one that says not which disk it has.
            format!(
                "peer kind=control log=0 {cluster} from=9 to={id} disk={unlisted} incarnation=1 nonce=7 {places}"
            ),
            format!(
                "peer kind=control log=0 {cluster} from={} to={id} guest=1 {places}",
                away + 1
            ),
        ];
        for greeting in &greetings {
            for (what, frame) in words(stream) {
                let caller = stage.call(to, greeting);
                stage.wait("an answer", |_| caller.text().contains('\n'));
                let welcome = caller.heard();
                let text = caller.text();
                let said: Vec<&str> = text.trim().split(' ').collect();
                let is_known = |word: &&str| {
                    *word == "ok" || word.starts_with("version=") || word.starts_with("challenge=")
                };
                assert!(said.iter().all(is_known), "{what}: {text}");
                caller.send(&mut stage.world, &encode_control(TOKENS, &frame));
                stage.pass(SECOND);
                assert_eq!(caller.heard(), welcome, "{what} at {to} by {greeting}");
            }
        }
    }
    let tokens = done(&mut stage, by_root, "tokens");
    assert!(!tokens.contains("mine"), "{tokens}");
    assert!(
        stage
            .look()
            .node(0)
            .is_some_and(node::Node::asks_for_tokens)
    );
    let logs = done(&mut stage, by_root, "logs");
    assert!(!logs.contains("lied"), "{logs}");
    assert_eq!(done(&mut stage, by_root, "audit"), before);
    stage.restart(away);
    stage.wait_whole(3);
    assert_eq!(done(&mut stage, by_root, "audit"), before);
}
