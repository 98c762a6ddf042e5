//! Golden lines: what nodes answer.

use wire::{Answer, Code, ReadEnd, Refusal, StreamName};

#[test]
fn answers_are_written_as_the_page_says() {
    let name: StreamName = "1.1.3".parse().unwrap();
    let answers = [
        ("waiting\n", Answer::Waiting),
        ("stream 1.1.3 at=9\n", Answer::Stream { name, at: 9 }),
        ("ack 10\n", Answer::Ack(10)),
        (
            "ack 10 crc32c=0badf00d\n",
            Answer::Checked {
                position: 10,
                crc32c: 0x0bad_f00d,
            },
        ),
        ("closed 10\n", Answer::Closed(10)),
        (
            "reading from=0 length=5 stale=0 open=1\n",
            Answer::Reading {
                from: 0,
                length: 5,
                stale: false,
                open: true,
            },
        ),
        (
            "data 5 1024 0000abcd\n",
            Answer::Data {
                position: 5,
                count: 1024,
                crc32c: 0xabcd,
            },
        ),
        (
            "end 7 cut\n",
            Answer::End {
                position: 7,
                end: ReadEnd::Cut,
            },
        ),
        ("ok [{\"id\":1}]\n", Answer::Ok("[{\"id\":1}]".to_owned())),
        (
            "error not-leader leader=127.0.0.1:7118: Node 2 leads.\n",
            Answer::Error(
                Refusal::new(Code::NotLeader, "Node 2 leads.").key("leader", "127.0.0.1:7118"),
            ),
        ),
        (
            "error no-quorum: Only 1 of 3 nodes answers: wait.\n",
            Answer::Error(Refusal::new(
                Code::NoQuorum,
                "Only 1 of 3 nodes answers: wait.",
            )),
        ),
    ];
    for (line, answer) in answers {
        assert_eq!(answer.to_line(), line);
        assert_eq!(Answer::parse(line.as_bytes()), Ok(answer));
    }
}
