//! Commands of the connection, the cluster and transactions. The door answers them, but for COMMAND.

use super::row;
use crate::commands::about;
use crate::spec::CommandSpec;

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("asking", 1, &["fast"], [0, 0, 0])
        .about("cluster", "3.0.0", "O(1)")
        .says(
            "Sent by cluster clients after an -ASK redirect",
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
    .about(
        "connection",
        "1.0.0",
        "O(N) where N is the number of passwords defined for the user",
    )
    .says("Authenticate to the server", &["@fast", "@connection"]),
    row("client", -2, &[], [0, 0, 0])
        .about("connection", "2.4.0", "Depends on subcommand.")
        .says("A container for client connection commands", &["@slow"]),
    row("cluster", -2, &[], [0, 0, 0])
        .about("cluster", "3.0.0", "Depends on subcommand.")
        .says("A container for cluster commands", &["@slow"]),
    row("command", -1, &["loading", "stale"], [0, 0, 0])
        .about(
            "server",
            "2.8.13",
            "O(N) where N is the total number of Redis commands",
        )
        .says(
            "Get array of Redis command details",
            &["@slow", "@connection"],
        )
        .on(about::command),
    row("config", -2, &[], [0, 0, 0])
        .about("server", "2.0.0", "Depends on subcommand.")
        .says("A container for server configuration commands", &["@slow"]),
    row(
        "discard",
        1,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [0, 0, 0],
    )
    .about(
        "transactions",
        "2.0.0",
        "O(N), when N is the number of queued commands",
    )
    .says(
        "Discard all commands issued after MULTI",
        &["@fast", "@transaction"],
    ),
    row("echo", 2, &["loading", "stale", "fast"], [0, 0, 0])
        .about("connection", "1.0.0", "O(1)")
        .says("Echo the given string", &["@fast", "@connection"]),
    row(
        "exec",
        1,
        &["noscript", "loading", "stale", "skip_slowlog"],
        [0, 0, 0],
    )
    .about(
        "transactions",
        "1.2.0",
        "Depends on commands in the transaction",
    )
    .says(
        "Execute all commands issued after MULTI",
        &["@slow", "@transaction"],
    ),
    row("function", -2, &[], [0, 0, 0])
        .about("scripting", "7.0.0", "Depends on subcommand.")
        .says("A container for function commands", &["@slow"]),
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
    .says("Handshake with Redis", &["@fast", "@connection"]),
    row("info", -1, &["loading", "stale"], [0, 0, 0])
        .about("server", "1.0.0", "O(1)")
        .says(
            "Get information and statistics about the server",
            &["@slow", "@dangerous"],
        ),
    row("latency", -2, &[], [0, 0, 0])
        .about("server", "2.8.13", "Depends on subcommand.")
        .says("A container for latency diagnostics commands", &["@slow"]),
    row("lolwut", -1, &["readonly", "fast"], [0, 0, 0])
        .about("server", "5.0.0", "")
        .says(
            "Display some computer art and the Redis version",
            &["@read", "@fast"],
        ),
    row("memory", -2, &[], [0, 0, 0])
        .about("server", "4.0.0", "Depends on subcommand.")
        .says("A container for memory diagnostics commands", &["@slow"]),
    row(
        "multi",
        1,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [0, 0, 0],
    )
    .about("transactions", "1.2.0", "O(1)")
    .says(
        "Mark the start of a transaction block",
        &["@fast", "@transaction"],
    ),
    row("once", -5, &["write", "movablekeys"], [1, 1, 1])
        .about("generic", "1.0.0", "That of the command")
        .says(
            "Execute a command of a session at most once, however often it is sent",
            &["@write", "@slow"],
        ),
    row("once.open", 2, &["write", "fast"], [1, 1, 1])
        .about("generic", "1.0.0", "O(1)")
        .says(
            "Open a session for commands that are executed at most once",
            &["@write", "@fast"],
        ),
    row("ping", -1, &["fast"], [0, 0, 0])
        .about("connection", "1.0.0", "O(1)")
        .says("Ping the server", &["@fast", "@connection"]),
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
    .says("Close the connection", &["@fast", "@connection"]),
    row("readonly", 1, &["loading", "stale", "fast"], [0, 0, 0])
        .about("cluster", "3.0.0", "O(1)")
        .says(
            "Enables read queries for a connection to a cluster replica node",
            &["@fast", "@connection"],
        ),
    row("readwrite", 1, &["loading", "stale", "fast"], [0, 0, 0])
        .about("cluster", "3.0.0", "O(1)")
        .says(
            "Disables read queries for a connection to a cluster replica node",
            &["@fast", "@connection"],
        ),
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
    .says("Reset the connection", &["@fast", "@connection"]),
    row("select", 2, &["loading", "stale", "fast"], [0, 0, 0])
        .about("connection", "1.0.0", "O(1)")
        .says(
            "Change the selected database for the current connection",
            &["@fast", "@connection"],
        ),
    row("slowlog", -2, &[], [0, 0, 0])
        .about("server", "2.2.12", "Depends on subcommand.")
        .says("A container for slow log commands", &["@slow"]),
    row("time", 1, &["loading", "stale", "fast"], [0, 0, 0])
        .about("server", "2.6.0", "O(1)")
        .says("Return the current server time", &["@fast"]),
    row(
        "unwatch",
        1,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [0, 0, 0],
    )
    .about("transactions", "2.2.0", "O(1)")
    .says("Forget about all watched keys", &["@fast", "@transaction"]),
    row(
        "watch",
        -2,
        &["noscript", "loading", "stale", "fast", "allow_busy"],
        [1, -1, 1],
    )
    .about("transactions", "2.2.0", "O(1) for every key.")
    .says(
        "Watch the given keys to determine execution of the MULTI/EXEC block",
        &["@fast", "@transaction"],
    ),
];
