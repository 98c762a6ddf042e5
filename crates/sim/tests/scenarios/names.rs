//! Nodes are believed by the names in their certificates, which log 0 binds to their ids.

use node::health::Code;
use paxos::NodeId;

use crate::stage::{SECOND, Stage};
use crate::tokens::{By, answer, ask, code, done, put_line, token};

fn is_alive(stage: &Stage, at: usize, id: u32) -> bool {
    let look = stage.look();
    look.node(at)
        .is_some_and(|node| node.hears_node(NodeId(id)))
}

fn certificate_of(stage: &Stage, at: usize, id: u32) -> String {
    let look = stage.look();
    let node = look.node(at).expect("it runs");
    node.certificate_of(NodeId(id))
        .unwrap_or("nobody")
        .to_owned()
}

/// Starts a node again, which shows that name, or none.
fn restart_as(stage: &mut Stage, index: usize, name: Option<&str>) {
    stage.crash(index);
    stage.show(index, name);
    stage.restart(index);
}

/// ‡ Its disk and its key are its own, so nothing but the certificate speaks against it: whoever copied a directory has both.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn who_says_that_he_is_a_node_and_shows_anothers_certificate_or_none_is_not_believed() {
    let mut stage = Stage::named(1);
    for id in 1..=3 {
        let bound = certificate_of(&stage, 0, id);
        assert_eq!(bound, format!("node{id}"), "by bootstrap and join");
    }
    for shown in [Some("node2"), None, Some("node9")] {
        restart_as(&mut stage, 2, shown);
        stage.pass(8 * SECOND);
        for at in 0..2 {
            let alive = is_alive(&stage, at, 3);
            assert!(!alive, "node 3 is believed though it shows {shown:?}");
            assert!(is_alive(&stage, at, 2 - at as u32), "the others are there");
        }
        // It is told why. Without TLS it hears nobody, for it does not believe the others either.
        let status = answer(&mut stage, 2, By::Socket, "status");
        let is_told = status.contains("its certificate node3 alone");
        assert_eq!(is_told, shown.is_some(), "{status}");
    }
    restart_as(&mut stage, 2, Some("node3"));
    stage.wait_whole(3);
}

/// ‡ Who waits at the address of another node is told nothing: neither names nor bytes.
#[cfg_attr(not(feature = "mutations"), test)]
fn who_answers_at_a_nodes_address_with_another_certificate_is_told_nothing() {
    let mut stage = Stage::named(2);
    let mut caller = stage.open(0, "append main label=a");
    stage.say_and_wait(&mut caller, 10_000);
    stage.show(2, Some("node1"));
    stage.crash(2);
    stage.restart(2);
    let before = stage.world.network().open_connections(stage.nodes[2]);
    assert_eq!(before, 0);
    stage.pass(8 * SECOND);
    let leads = stage.leader();
    assert_ne!(leads, 2);
    stage.say_and_wait(&mut caller, 10_000);
    let status = answer(&mut stage, 2, By::Socket, "streams main stale=1");
    assert!(!status.contains("\"length\":20000"), "{status}");
    stage.show(2, Some("node3"));
    stage.wait_whole(3);
}

#[cfg_attr(not(feature = "mutations"), test)]
fn names_are_bound_while_writers_write_and_bound_ones_are_no_more_believed_in_plain() {
    let mut stage = Stage::three(3);
    stage.add_writer(3_000_000, 2_000, SECOND / 50);
    for index in 0..3 {
        let name = format!("n{}", index + 1);
        restart_as(&mut stage, index, Some(&name));
        stage.wait_whole(3);
        // Plain text and certificates go side by side.
        assert_eq!(certificate_of(&stage, 0, index as u32 + 1), "");
    }
    let plan = done(&mut stage, By::Socket, "change-members bind plan=1");
    assert_eq!(plan.matches("\"certificate\":\"n").count(), 3, "{plan}");
    assert!(plan.contains("\"nothing\":false"), "{plan}");
    assert_eq!(certificate_of(&stage, 0, 2), "", "it was a plan");
    done(&mut stage, By::Socket, "change-members bind");
    stage.wait_whole(3);
    let again = done(&mut stage, By::Socket, "change-members bind");
    assert!(again.contains("\"nothing\":true"), "{again}");
    for at in 0..3 {
        for id in 1..=3 {
            let bound = certificate_of(&stage, at, id);
            assert_eq!(bound, format!("n{id}"), "at node {}", at + 1);
        }
    }
    restart_as(&mut stage, 1, None);
    stage.pass(8 * SECOND);
    assert!(!is_alive(&stage, 0, 2) && !is_alive(&stage, 2, 2));
    restart_as(&mut stage, 1, Some("n2"));
    stage.wait_whole(3);
    // Another name, bound by hand: the old one is nobody's.
    let taken = done(&mut stage, By::Socket, "change-members name 2 n3");
    assert_eq!(code(&taken), "refused", "{taken}");
    let wrong = done(&mut stage, By::Socket, "change-members name 2 n%20x");
    assert_eq!(code(&wrong), "bad-request", "{wrong}");
    done(&mut stage, By::Socket, "change-members name 2 cellar");
    stage.pass(8 * SECOND);
    assert!(!is_alive(&stage, 0, 2), "it shows n2 still");
    stage.show(1, Some("cellar"));
    stage.wait_whole(3);
    let writers = stage.writers.clone();
    stage.wait("the writer to have said all", |look| {
        writers.iter().all(|writer| !look.world.is_running(*writer))
    });
}

/// ‡ It was away while others were named otherwise, and hears it from those that it still knows.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_node_that_was_away_while_names_were_changed_comes_back() {
    let mut stage = Stage::named(4);
    stage.isolate(2);
    stage.pass(5 * SECOND);
    let named = done_by(&mut stage, &[0, 1], "change-members name 2 cellar");
    assert!(named.starts_with("ok "), "{named}");
    stage.show(1, Some("cellar"));
    stage.wait("the two to be there", |look| look.leader().is_some());
    stage.pass(5 * SECOND);
    stage.world.heal_all();
    stage.wait("it to have heard", |look| {
        let name = look.node(2).and_then(|node| node.certificate_of(NodeId(2)));
        name == Some("cellar")
    });
    stage.wait_whole(3);
    stage.pass(5 * SECOND);
    assert!(is_alive(&stage, 2, 2) && is_alive(&stage, 1, 3));
}

fn done_by(stage: &mut Stage, of: &[usize], request: &str) -> String {
    for _ in 0..100 {
        for index in of {
            let text = answer(stage, *index, By::Socket, request);
            if !["not-leader", "no-quorum"].contains(&code(&text)) {
                return text;
            }
        }
        stage.pass(SECOND / 10);
    }
    panic!("nobody does {request}");
}

/// A node's word that it joins with that disk and this certificate.
fn join(stage: &mut Stage, by: By<'_>, name: &str, number: u8, more: &str) -> String {
    let disk = format!("{number:02x}").repeat(16);
    let line = format!("join address=host:{number} disk={disk} speaks=1-2{more}");
    for _ in 0..100 {
        for index in 0..2 {
            let caller = ask_as(stage, index, by, name, &line);
            if !["not-leader", "no-quorum"].contains(&code(&caller)) {
                return caller;
            }
        }
        stage.pass(SECOND / 10);
    }
    panic!("nobody lets it in");
}

fn ask_as(stage: &mut Stage, index: usize, by: By<'_>, name: &str, line: &str) -> String {
    let caller = stage.dial(index);
    let certificates = &mut stage.world.network().certificates;
    certificates.insert(caller.host, name.to_owned());
    let shown = match by {
        By::Token(token) => wire::auth::line(&token.reveal()),
        By::Ticket(ticket) => wire::auth::line(ticket.reveal()),
        By::Socket | By::Nobody => String::new(),
    };
    let line = format!("{shown}logberg/1 {line}\n");
    caller.send(&mut stage.world, line.as_bytes());
    stage.wait("an answer", |_| caller.is_over() || caller.is_open());
    caller.text()
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_name_lets_in_one_disk_until_a_node_says_that_it_comes_in_the_place_of_that() {
    let mut stage = Stage::named(5);
    let taken = join(&mut stage, By::Nobody, "node3", 40, "");
    assert_eq!(code(&taken), "refused", "{taken}");
    assert!(
        taken.contains("--replaces 3"),
        "it names what helps: {taken}"
    );
    let alive = join(&mut stage, By::Nobody, "node3", 40, " replaces=3");
    assert!(alive.contains("node 3 is alive"), "{alive}");
    let other = join(&mut stage, By::Nobody, "node9", 40, " replaces=3");
    assert_eq!(code(&other), "refused", "{other}");
    // Its disk is lost, and the machine has its certificate still.
    stage.crash(2);
    stage.pass(8 * SECOND);
    stage.join_in_the_place_of(2, 0, Some(3));
    stage.wait("it to join", |look| {
        look.node(2).is_some_and(|node| node.id().0 == 4)
    });
    stage.pass(8 * SECOND);
    assert!(is_alive(&stage, 0, 4) && is_alive(&stage, 1, 4));
    assert_eq!(certificate_of(&stage, 0, 4), "node3");
    let members = answer(&mut stage, 0, By::Socket, "members local=1");
    assert!(members.contains("\"replaced_by\":4"), "{members}");
    done_by(&mut stage, &[0, 1], "change-members replace 3 4");
    stage.wait_whole(3);
}

#[cfg_attr(not(feature = "mutations"), test)]
fn where_tokens_are_asked_for_one_that_says_so_moves_a_name() {
    let mut stage = Stage::named(6);
    let root = token("root", 1);
    let by_root = By::Token(&root);
    let made = done(&mut stage, By::Socket, &put_line(&root, "all on *"));
    assert!(made.starts_with("ok "), "{made}");
    done(&mut stage, by_root, "set-auth on");
    stage.crash(2);
    stage.pass(8 * SECOND);
    let once = token("once", 2);
    let line = format!("{} once=1", put_line(&once, "join on cluster"));
    done_with(&mut stage, by_root, &line);
    let refused = join(&mut stage, By::Token(&once), "node3", 40, " replaces=3");
    assert_eq!(code(&refused), "forbidden", "{refused}");
    let moving = token("moving", 3);
    let line = format!("{} replaces=3", put_line(&moving, "join on cluster"));
    let refused = done_with(&mut stage, by_root, &line);
    assert!(refused.contains("say --once, too"), "{refused}");
    let made = done_with(&mut stage, by_root, &format!("{line} once=1"));
    assert!(made.contains("\"replaces\":3"), "{made}");
    let by = By::Token(&moving);
    let refused = join(&mut stage, by, "node3", 40, " replaces=2");
    assert_eq!(code(&refused), "forbidden", "{refused}");
    let let_in = join(&mut stage, by, "node3", 40, "");
    assert!(let_in.starts_with("ok "), "{let_in}");
    let again = join(&mut stage, by, "node3", 40, "");
    assert_eq!(again, let_in, "the same disk again");
    let other = join(&mut stage, by, "node3", 41, "");
    assert!(other.starts_with("error "), "{other}");
    // Whoever had that id is nobody now, whatever he shows.
    stage.restart(2);
    stage.pass(8 * SECOND);
    assert!(!is_alive(&stage, 0, 3) && !is_alive(&stage, 1, 3));
}

fn done_with(stage: &mut Stage, by: By<'_>, request: &str) -> String {
    for _ in 0..100 {
        for index in 0..2 {
            let caller = ask(stage, index, by, request);
            stage.wait("an answer", |_| caller.is_over() || caller.is_open());
            let text = caller.text();
            if !["not-leader", "no-quorum"].contains(&code(&text)) {
                return text;
            }
        }
        stage.pass(SECOND / 10);
    }
    panic!("nobody does {request}");
}

/// S2: it still chains to the authority.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_removed_nodes_certificate_is_nobodys_and_may_join_anew() {
    let mut stage = Stage::named(8);
    let removed = done(&mut stage, By::Socket, "change-members remove 3");
    assert!(removed.starts_with("ok "), "{removed}");
    stage.wait("it to be removed", |look| {
        let gone = |at: usize| {
            look.node(at)
                .is_some_and(|node| node.removed_nodes().any(|id| id == 3))
        };
        gone(0) && gone(1)
    });
    restart_as(&mut stage, 2, Some("node3"));
    stage.pass(8 * SECOND);
    assert!(!is_alive(&stage, 0, 3) && !is_alive(&stage, 1, 3));
    // Nor does it speak as another one, whose name is bound.
    let disk = "5".repeat(32);
    let cluster = answer(&mut stage, 0, By::Socket, "status");
    let (_, cluster) = cluster.split_once("\"cluster\":\"").expect("a cluster");
    let (cluster, _) = cluster.split_once('"').expect("its id");
    let line = format!(
        "peer kind=control log=0 cluster={cluster} from=2 to=1 disk={disk} incarnation=9 nonce=1 speaks=1-2"
    );
    let refused = ask_as(&mut stage, 0, By::Nobody, "node3", &line);
    assert_eq!(code(&refused), "no-proof", "{refused}");
    assert!(refused.contains("certificate node2 alone"), "{refused}");
    let anew = join(&mut stage, By::Nobody, "node3", 40, "");
    assert!(
        anew.starts_with("ok ") && anew.contains("\"node\":4"),
        "{anew}"
    );
}

/// Everybody holds that warning about that node, or nobody does.
fn wait_warned(stage: &mut Stage, code: Code, about: u32, is_so: bool) {
    stage.wait(code.name(), |look| {
        let warned = |at: usize| {
            let (_, warnings) = look.node(at).expect("it runs").warnings();
            let mut warnings = warnings.iter();
            warnings.any(|(known, node, active)| {
                (*known, *node, *active) == (code, NodeId(about), true)
            })
        };
        (0..3).all(|at| warned(at) == is_so)
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
fn all_nodes_hold_what_is_wrong_with_the_doors_of_one() {
    let mut stage = Stage::named(7);
    // The clock of these worlds.
    let made = answer(&mut stage, 0, By::Socket, "audit");
    assert!(made.starts_with("ok "), "{made}");
    let root = token("root", 1);
    done(&mut stage, By::Socket, &put_line(&root, "all on *"));
    let now_s = crate::tokens::made_ms(&mut stage, By::Socket) / 1000;
    stage.tell(1, |told| told.holds_until_s = Some(now_s + 31 * 86_400));
    stage.pass(SECOND);
    wait_warned(&mut stage, Code::CertificateExpires, 2, false);
    stage.tell(1, |told| told.holds_until_s = Some(now_s + 29 * 86_400));
    wait_warned(&mut stage, Code::CertificateExpires, 2, true);
    stage.tell(1, |told| told.holds_until_s = Some(now_s));
    wait_warned(&mut stage, Code::CertificateExpired, 2, true);
    wait_warned(&mut stage, Code::CertificateExpires, 2, false);
    stage.tell(1, |told| told.holds_until_s = Some(now_s + 365 * 86_400));
    wait_warned(&mut stage, Code::CertificateExpired, 2, false);
    stage.tell(2, |told| told.plain_at_s = Some(now_s));
    wait_warned(&mut stage, Code::PlainConnections, 3, true);
    // It is long ago by then.
    stage.tell(2, |told| told.plain_at_s = Some(now_s - 601));
    wait_warned(&mut stage, Code::PlainConnections, 3, false);
    // What was wrong is held for ten seconds, and lowers the state. Who may come in does not.
    stage.pass(15 * SECOND);
    stage.tell(0, |told| told.open_at = Some("10.0.0.1:7117".to_owned()));
    wait_warned(&mut stage, Code::Insecure, 1, true);
    let status = answer(&mut stage, 2, By::Socket, "status");
    assert!(
        status.contains("anyone who reaches it may do all"),
        "{status}"
    );
    assert!(
        status.contains("\"state\":\"healthy\",\"warnings\""),
        "{status}"
    );
    done(&mut stage, By::Token(&root), "set-auth on");
    wait_warned(&mut stage, Code::Insecure, 1, false);
    stage.tell(0, |told| told.certificate = None);
    wait_warned(&mut stage, Code::Insecure, 1, true);
    // A mesh encrypts, its operator says: that is held in its place.
    stage.tell(0, |told| told.is_plain_private = true);
    wait_warned(&mut stage, Code::PlainIsPrivate, 1, true);
    wait_warned(&mut stage, Code::Insecure, 1, false);
    // With TLS beside it plain text is taken still.
    stage.tell(0, |told| told.certificate = Some("n1".to_owned()));
    stage.pass(15 * SECOND);
    wait_warned(&mut stage, Code::PlainIsPrivate, 1, true);
    stage.tell(0, |told| told.is_tls_required = true);
    wait_warned(&mut stage, Code::PlainIsPrivate, 1, false);
    stage.tell(0, |told| {
        (told.certificate, told.is_tls_required) = (None, false);
    });
    wait_warned(&mut stage, Code::PlainIsPrivate, 1, true);
    stage.tell(0, |told| told.is_plain_private = false);
    wait_warned(&mut stage, Code::PlainIsPrivate, 1, false);
    wait_warned(&mut stage, Code::Insecure, 1, true);
}
