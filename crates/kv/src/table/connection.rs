//! Commands of the connection, the cluster and transactions. The door answers them, but for COMMAND, MEMORY USAGE and those of sessions.

use super::row;
use crate::commands::{about, keyspace, once};
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("acl", -2, &[], [0, 0, 0])
        .about("server", "6.0.0", "That of the subcommand")
        .says("Tells who may do what", &["@slow"]),
    row("asking", 1, &["fast"], [0, 0, 0])
        .about("cluster", "3.0.0", "O(1)")
        .says(
            "Lets the next command reach a slot that is still being moved here",
            &["@fast", "@connection"],
        ),
    row(
        "auth",
        -2,
        &[
            "noscript",
            "loading",
            "stale",
            "fast",
            "no_auth",
            "allow_busy",
        ],
        [0, 0, 0],
    )
    .about("connection", "1.0.0", "O(n), n passwords of the user")
    .says("Shows the server a password", &["@fast", "@connection"]),
    row("client", -2, &[], [0, 0, 0])
        .about("connection", "2.4.0", "That of the subcommand")
        .says(
            "Names, lists and tunes the connections of clients",
            &["@slow"],
        ),
    row("cluster", -2, &[], [0, 0, 0])
        .about("cluster", "3.0.0", "That of the subcommand")
        .says("Tells which node serves which slots", &["@slow"]),
    row("command", -1, &["loading", "stale"], [0, 0, 0])
        .about("server", "2.8.13", "O(n), n commands")
        .says(
            "Describes the commands of this server",
            &["@slow", "@connection"],
        )
        .on(about::command),
    row("config", -2, &[], [0, 0, 0])
        .about("server", "2.0.0", "That of the subcommand")
        .says("Reads and changes settings of the server", &["@slow"]),
    row(
        "discard",
        1,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [0, 0, 0],
    )
    .about("transactions", "2.0.0", "O(n), n commands in the queue")
    .says(
        "Ends a transaction and runs nothing of its queue",
        &["@fast", "@transaction"],
    ),
    row("echo", 2, &["loading", "stale", "fast"], [0, 0, 0])
        .about("connection", "1.0.0", "O(1)")
        .says(
            "Sends a message back to its sender",
            &["@fast", "@connection"],
        ),
    row(
        "exec",
        1,
        &["noscript", "loading", "stale", "skip_slowlog"],
        [0, 0, 0],
    )
    .about("transactions", "1.2.0", "That of the commands in the queue")
    .says(
        "Runs the queue of a transaction as one step",
        &["@slow", "@transaction"],
    ),
    row("function", -2, &[], [0, 0, 0])
        .about("scripting", "7.0.0", "That of the subcommand")
        .says("Manages functions kept by the server", &["@slow"]),
    row(
        "hello",
        -1,
        &[
            "noscript",
            "loading",
            "stale",
            "fast",
            "no_auth",
            "allow_busy",
        ],
        [0, 0, 0],
    )
    .about("connection", "6.0.0", "O(1)")
    .says(
        "Agrees on a protocol version and greets the server",
        &["@fast", "@connection"],
    ),
    row("info", -1, &["loading", "stale"], [0, 0, 0])
        .about("server", "1.0.0", "O(1)")
        .says(
            "Reports the state of the server as text",
            &["@slow", "@dangerous"],
        ),
    row("latency", -2, &[], [0, 0, 0])
        .about("server", "2.8.13", "That of the subcommand")
        .says("Reports what took the server long", &["@slow"]),
    row("lolwut", -1, &["readonly", "fast"], [0, 0, 0])
        .about("server", "5.0.0", "O(1)")
        .says(
            "Answers with the server's version, for fun",
            &["@read", "@fast"],
        ),
    row("memory", -2, &[], [0, 0, 0])
        .about("server", "4.0.0", "That of the subcommand")
        .says("Reports the use of memory", &["@slow"])
        .on(keyspace::memory),
    row(
        "multi",
        1,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [0, 0, 0],
    )
    .about("transactions", "1.2.0", "O(1)")
    .says(
        "Begins a transaction: commands wait in a queue until EXEC",
        &["@fast", "@transaction"],
    ),
    row("once", -5, &["write", "movablekeys"], [1, 1, 1])
        .about("generic", "1.0.0", "That of the command")
        .says(
            "Runs a command of a session at most once, however often it is sent",
            &["@write", "@slow"],
        )
        .on(once::once),
    row("once.open", 2, &["write", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Opens a session for commands that run at most once",
            &["@write", "@fast"],
        )
        .on(once::open),
    row("ping", -1, &["fast"], [0, 0, 0])
        .about("connection", "1.0.0", "O(1)")
        .says("Asks for a sign of life", &["@fast", "@connection"]),
    row(
        "quit",
        -1,
        &[
            "noscript",
            "loading",
            "stale",
            "fast",
            "no_auth",
            "allow_busy",
        ],
        [0, 0, 0],
    )
    .about("connection", "1.0.0", "O(1)")
    .says(
        "Says goodbye; the server hangs up",
        &["@fast", "@connection"],
    ),
    row("readonly", 1, &["loading", "stale", "fast"], [0, 0, 0])
        .about("cluster", "3.0.0", "O(1)")
        .says(
            "Allows reads from a node that does not lead the slot",
            &["@fast", "@connection"],
        ),
    row("readwrite", 1, &["loading", "stale", "fast"], [0, 0, 0])
        .about("cluster", "3.0.0", "O(1)")
        .says("Takes back READONLY", &["@fast", "@connection"]),
    row(
        "reset",
        1,
        &[
            "noscript",
            "loading",
            "stale",
            "fast",
            "no_auth",
            "allow_busy",
        ],
        [0, 0, 0],
    )
    .about("connection", "6.2.0", "O(1)")
    .says(
        "Makes the connection as good as new",
        &["@fast", "@connection"],
    ),
    row("select", 2, &["loading", "stale", "fast"], [0, 0, 0])
        .about("connection", "1.0.0", "O(1)")
        .says(
            "Chooses a database by its number",
            &["@fast", "@connection"],
        ),
    row("slowlog", -2, &[], [0, 0, 0])
        .about("server", "2.2.12", "That of the subcommand")
        .says("Shows which commands were slow", &["@slow"]),
    row("time", 1, &["loading", "stale", "fast"], [0, 0, 0])
        .about("server", "2.6.0", "O(1)")
        .says("Tells the time on the server's clock", &["@fast"]),
    row(
        "unwatch",
        1,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [0, 0, 0],
    )
    .about("transactions", "2.2.0", "O(1)")
    .says("Lets go of every watched key", &["@fast", "@transaction"]),
    row(
        "watch",
        -2,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [1, -1, 1],
    )
    .about("transactions", "2.2.0", "O(n), n keys")
    .says(
        "Makes the next EXEC run only if these keys stay as they are",
        &["@fast", "@transaction"],
    ),
];
