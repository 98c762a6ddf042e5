//! Signed tickets: what they say counts as far as their issuer may, until they expire, and as long as there is that issuer.

use access::TicketText;
use tickets::{Audience, Claims, SigningKey, sign};

use crate::stage::{LOG, SECOND, Stage};
use crate::tokens::{By, answer, answered, ask, code, done, guarded, made_ms};

fn key(draw: u8) -> SigningKey {
    SigningKey::of_seed(&[draw; 32]).expect("a key")
}

/// Whoever signs tickets for one cluster.
pub struct Backend {
    cluster: String,
    /// When it began, in seconds since the beginning of 1970.
    pub began: u64,
}

impl Backend {
    /// An issuer of that name which may so much.
    pub fn of(stage: &mut Stage, by: By<'_>, grants: &str) -> Backend {
        let began = made_ms(stage, by) / 1000;
        let made = done(stage, by, &put_line(1, grants));
        assert!(made.starts_with("ok {\"name\":\"backend\""), "{made}");
        let status = answered(stage, 0, by, "status");
        let (_, id) = status.split_once("\"cluster\":\"").expect("its id");
        let cluster = id[..36].to_owned();
        Backend { cluster, began }
    }

    pub fn ticket(&self, draw: u8, allow: &str, lives: u64) -> TicketText {
        let claims = Claims {
            iss: "backend".to_owned(),
            sub: "alice".to_owned(),
            aud: Audience::One(self.cluster.clone()),
            iat: self.began,
            exp: self.began + lives,
            nbf: None,
            allow: allow.split(';').map(str::to_owned).collect(),
        };
        sign(&claims, &key(draw)).expect("a ticket")
    }
}

fn put_line(draw: u8, grants: &str) -> String {
    let (key, grants) = (key(draw).public(), wire::encode(grants));
    format!("put-issuer backend keys={key} grants={grants}")
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_ticket_may_what_it_says_as_far_as_its_issuer_may() {
    let (mut stage, root) = guarded(31);
    let by_root = By::Token(&root);
    let may = "read,trim on log/m*\nstatus on cluster";
    let backend = Backend::of(&mut stage, by_root, may);
    let more = backend.ticket(1, "all on *", 3_600);
    let less = backend.ticket(1, "read,lead on log/main", 3_600);
    let by_another = backend.ticket(2, "read on log/main", 3_600);
    let elsewhere = Backend {
        cluster: "0".repeat(36),
        began: backend.began,
    };
    let elsewhere = elsewhere.ticket(1, "read on log/main", 3_600);
    let read = format!("read {LOG} stale=1");
    for index in 0..3 {
        let who = answered(&mut stage, index, By::Ticket(&more), "whoami");
        assert!(
            who.contains("\"principal\":\"ticket backend/alice\""),
            "{who}"
        );
        let cut = "\"grants\":[\"read,trim on log/m*\",\"status on cluster\"]";
        assert!(who.contains(cut), "more than its issuer may: {who}");
        let explained = answered(
            &mut stage,
            index,
            By::Ticket(&more),
            "explain append log/main",
        );
        assert!(explained.contains("\"allowed\":false"), "{explained}");
        let text = answered(&mut stage, index, By::Ticket(&more), &read);
        assert_eq!(code(&text), "", "{text}");
        for (ticket, request) in [
            (&more, format!("append {LOG} mode=takeover")),
            (&more, format!("lead {LOG}")),
            (&more, "tokens".to_owned()),
            (&more, "set-auth off".to_owned()),
            (&more, "remove-issuer backend".to_owned()),
            (&more, "change-members weight 9 weight=1 plan=1".to_owned()),
            (
                &more,
                format!("join address=nowhere:1 disk={} speaks=1-2", "3".repeat(32)),
            ),
            (&more, "read directory stale=1".to_owned()),
            (&less, format!("lead {LOG}")),
            (&less, format!("trim {LOG} before=@0 plan=1")),
        ] {
            let text = answered(&mut stage, index, By::Ticket(ticket), &request);
            assert_eq!(
                code(&text),
                "forbidden",
                "more than its issuer may: {request}: {text}"
            );
            assert!(text.contains("ticket `backend/alice`"), "{text}");
        }
        for ticket in [&by_another, &elsewhere] {
            let text = answered(&mut stage, index, By::Ticket(ticket), &read);
            assert_eq!(code(&text), "unauthenticated", "{text}");
        }
    }
    // The same ticket may what its issuer is granted later.
    let put = format!("{} replace=1", put_line(1, "read,lead on log/main"));
    assert!(done(&mut stage, by_root, &put).starts_with("ok "));
    for index in 0..3 {
        let text = answer(&mut stage, index, By::Ticket(&less), &format!("lead {LOG}"));
        assert!(
            !["forbidden", "unauthenticated"].contains(&code(&text)),
            "{text}"
        );
    }
    let audit = done(&mut stage, by_root, "audit");
    assert!(audit.contains("the new issuer backend: "), "{audit}");
    assert!(audit.contains("\"by\":\"ticket backend/alice\""), "{audit}");
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_ticket_ends_by_the_later_clock_and_with_its_issuer() {
    let (mut stage, root) = guarded(32);
    let by_root = By::Token(&root);
    let (leader, others) = stage.roles();
    // The clock of one node was set back by an hour.
    let index = others[1];
    stage.world.set_wall_clock(stage.nodes[index], -3_600_000);
    stage.crash(index);
    stage.restart(index);
    stage.wait_whole(3);
    let backend = Backend::of(&mut stage, by_root, "read,append on log/main");
    let short = backend.ticket(1, "all on log/main", 60);
    let long = backend.ticket(1, "all on log/main", 7_200);
    let follow = format!("read {LOG} follow=1 format=framed");
    let mut writer = ask(
        &mut stage,
        leader,
        By::Ticket(&long),
        &format!("append {LOG}"),
    );
    stage.wait("the stream to open", |_| writer.is_open());
    stage.say_and_wait(&mut writer, 100);
    let ended = ask(&mut stage, others[0], By::Ticket(&short), &follow);
    let goes_on = ask(&mut stage, others[0], By::Ticket(&long), &follow);
    stage.wait("both to read", |_| {
        ended.heard().len() > 100 && goes_on.heard().len() > 100
    });
    stage.pass(70 * SECOND);
    assert!(
        ended.is_over(),
        "a reader goes on though its ticket has expired"
    );
    let text = String::from_utf8_lossy(&ended.heard()).into_owned();
    assert!(text.contains("error unauthenticated"), "{text}");
    assert!(!goes_on.is_over(), "the other ticket is good still");
    // Log 0's time goes on with what is asked of it.
    let later = crate::tokens::token("later", 3);
    crate::tokens::put(&mut stage, by_root, &later, "status on cluster");
    stage.wait("all to have heard", |look| {
        (0..3).all(|index| {
            look.node(index)
                .is_some_and(|node| node.knows_token("later"))
        })
    });
    for index in 0..3 {
        let text = answered(&mut stage, index, By::Ticket(&short), "whoami");
        assert_eq!(code(&text), "unauthenticated", "node {}: {text}", index + 1);
        assert!(text.contains("has expired"), "{text}");
    }
    let removed = done(&mut stage, by_root, "remove-issuer backend");
    assert!(removed.starts_with("ok "), "{removed}");
    stage.wait_within(5 * SECOND, "the writer and the reader to be ended", |_| {
        writer.is_over() && goes_on.is_over()
    });
    assert_eq!(writer.acknowledged(), 100, "what was acknowledged stays");
}

/// As of a token: its node cannot know, and learns it.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_issuer_that_was_removed_is_known_until_a_node_hears_and_not_after_a_start() {
    let (mut stage, root) = guarded(33);
    let by_root = By::Token(&root);
    let backend = Backend::of(&mut stage, by_root, "read on log/main");
    let ticket = backend.ticket(1, "read on log/main", 7_200);
    let (_, others) = stage.roles();
    let index = others[0];
    let read = format!("read {LOG} stale=1");
    let text = answered(&mut stage, index, By::Ticket(&ticket), &read);
    assert_eq!(code(&text), "", "{text}");
    stage.isolate(index);
    let removed = done(&mut stage, by_root, "remove-issuer backend");
    assert!(removed.starts_with("ok "), "{removed}");
    let text = answer(&mut stage, index, By::Ticket(&ticket), &read);
    assert_eq!(code(&text), "", "it cannot know: {text}");
    // ‡ After a start it serves nobody by what its disk has.
    stage.crash(index);
    stage.restart(index);
    let text = answer(&mut stage, index, By::Ticket(&ticket), &read);
    assert!(["no-quorum", "not-leader"].contains(&code(&text)), "{text}");
    stage.world.heal_all();
    stage.wait_within(60 * SECOND, "it to hear", |look| {
        look.node(index)
            .is_some_and(|node| !node.knows_issuer("backend"))
    });
    let text = answered(&mut stage, index, By::Ticket(&ticket), &read);
    assert_eq!(code(&text), "unauthenticated", "{text}");
}
