//! What somebody is told whose token is not made, not changed, or not enough: what is wrong, and what helps.

use std::fs;

use crate::tokens::{as_token, code, guarded};

use crate::harness::{err, out};

#[test]
fn who_is_refused_is_told_what_helps() {
    let (cluster, place, root) = guarded(1);
    let create = |name: &str, more: &[&str]| {
        as_token(
            &cluster,
            &root,
            &[&["token", "create", name][..], more].concat(),
        )
    };
    let usual = ["--allow", "read on log/a"];
    for expires in ["0", "0s", "500ms", "999ms"] {
        let refused = create("short", &[&usual[..], &["--expires", expires]].concat());
        let said = err(&refused);
        assert_eq!(code(&refused), Some(2), "{expires}: {said}");
        assert!(
            said.contains("90d") && said.contains("leave --expires away"),
            "{said}"
        );
    }
    let second = create("second", &[&usual[..], &["--expires", "1s"]].concat());
    assert_eq!(code(&second), Some(0), "{}", err(&second));
    for part in [
        "read on stream/x",
        "read on stream/x*",
        "read on stream/default/",
    ] {
        let refused = create("part", &["--allow", part]);
        let said = err(&refused);
        assert_eq!(code(&refused), Some(2), "{part}: {said}");
        assert!(said.contains("stream/SPACE/PATH"), "{said}");
    }
    let once = create("once", &["--allow", "all on *", "--once"]);
    assert_eq!(code(&once), Some(2), "{}", err(&once));
    assert!(err(&once).contains("join on cluster"), "{}", err(&once));

    let made = create(
        "lead",
        &["--allow", "tokens on cluster", "--allow", "read on log/a"],
    );
    let lead = place.path().join("lead");
    fs::write(&lead, out(&made)).expect("room");
    assert_eq!(
        code(&create("more", &["--allow", "append on log/a"])),
        Some(0)
    );
    let helps = "ask with a token that may do as much, or at the socket in a node's directory";
    for (arguments, said) in [
        (
            &["token", "revoke", "more", "--yes"][..],
            "may not revoke token more, which may do more: 'append on log/a'",
        ),
        (
            &["token", "rotate", "more"],
            "may not change token more, which may do more: 'append on log/a'",
        ),
    ] {
        let refused = as_token(&cluster, &lead, arguments);
        assert_eq!(code(&refused), Some(4), "{arguments:?}");
        let told = err(&refused);
        assert!(told.contains(said) && told.contains(helps), "{told}");
        assert!(
            !told.contains("nobody gives"),
            "nothing is handed out: {told}"
        );
    }
    let allow = ["token", "create", "other", "--allow", "append on log/a"];
    let refused = as_token(&cluster, &lead, &allow);
    assert!(
        err(&refused).contains("nobody gives what he lacks"),
        "{}",
        err(&refused)
    );
    let refused = as_token(&cluster, &lead, &["auth", "disable", "--yes"]);
    assert!(
        err(&refused).contains("may not do all there is"),
        "{}",
        err(&refused)
    );
    let explained = as_token(&cluster, &root, &["auth", "explain", "read", "stream/x"]);
    assert!(
        err(&explained).contains("stream/SPACE/PATH"),
        "{}",
        err(&explained)
    );
}
