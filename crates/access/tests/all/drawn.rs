//! Drawn grants and tokens: what is printed is read again, matching is as a simple model has it, and no text panics.

use logberg_access::{
    BadToken, Grant, Grants, Need, Operation, Place, Resource, Secret, Token, TokenName, decide,
};
use proptest::prelude::*;

use crate::grants::token;

/// A grant without the care for bytes: a kind, a name, and whether it is a prefix.
#[derive(Clone, Debug)]
struct Model {
    kind: &'static str,
    name: Vec<u8>,
    is_prefix: bool,
}

fn encoded(name: &[u8]) -> String {
    name.iter().map(|byte| format!("%{byte:02x}")).collect()
}

impl Model {
    fn text(&self) -> String {
        match self.kind {
            "cluster" | "*" => self.kind.to_owned(),
            kind => {
                let star = if self.is_prefix { "*" } else { "" };
                format!("{kind}/{}{star}", encoded(&self.name))
            }
        }
    }

    /// Every name of at most three of these letters that it means, tried one by one.
    fn means(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut all = vec![("cluster", Vec::new())];
        for kind in ["log", "stream", "key"] {
            let mut names = vec![Vec::new()];
            for length in 0..3 {
                let longer = names.iter().filter(|name: &&Vec<u8>| name.len() == length);
                let longer = longer.flat_map(|name| LETTERS.map(|c| [&name[..], &[c]].concat()));
                let longer: Vec<_> = longer.collect();
                names.extend(longer);
            }
            all.extend(names.into_iter().map(|name| (kind, name)));
        }
        all.retain(|(kind, name)| match self.kind {
            "*" => true,
            "cluster" => *kind == "cluster",
            own if own != *kind => false,
            _ if self.is_prefix => name.starts_with(&self.name),
            _ => *name == self.name,
        });
        all
    }
}

const LETTERS: [u8; 3] = [b'a', b'*', 0xff];

fn model() -> impl Strategy<Value = Model> {
    let kind = prop_oneof![
        Just("log"),
        Just("stream"),
        Just("key"),
        Just("cluster"),
        Just("*")
    ];
    let name = proptest::collection::vec(proptest::sample::select(&LETTERS[..]), 0..3);
    (kind, name, any::<bool>()).prop_map(|(kind, name, is_prefix)| Model {
        kind,
        // A name is one letter at least, where it is not the beginning of others.
        name: match name.is_empty() && !is_prefix {
            true => vec![b'a'],
            false => name,
        },
        is_prefix,
    })
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    proptest::sample::subsequence(Operation::ALL, 1..=Operation::ALL.len())
}

fn grant() -> impl Strategy<Value = Grant> {
    let operations = prop_oneof![
        Just("all"),
        Just("read"),
        Just("append,delete"),
        Just("status")
    ];
    let drawn = (operations, model());
    drawn.prop_filter_map("it would allow nothing", |(operations, model)| {
        format!("{operations} on {}", model.text()).parse().ok()
    })
}

fn place(kind: &str, name: &[u8]) -> Place {
    Place::Of(match kind {
        "cluster" => Resource::cluster(),
        "key" => Resource::key(name),
        kind => match name.is_empty() {
            // Nothing has an empty name but the key; it is met as one.
            true => Resource::key(name),
            false => Resource::parse(&format!("{kind}/{}", encoded(name))).expect("a resource"),
        },
    })
}

proptest! {
    #[test]
    fn a_grant_that_is_printed_is_read_again(operations in operations(), model in model()) {
        let words: Vec<&str> = operations.iter().map(|o| o.as_str()).collect();
        let text = format!("{} on {}", words.join(","), model.text());
        if let Ok(grant) = text.parse::<Grant>() {
            let printed = grant.to_string();
            prop_assert_eq!(printed.parse::<Grant>(), Ok(grant));
            prop_assert!(printed.is_ascii());
        }
    }

    #[test]
    fn a_grant_covers_what_its_names_say(a in model(), b in model()) {
        let resource = |model: &Model| Resource::parse(&model.text()).expect("a resource");
        let (wide, narrow) = (a.means(), b.means());
        let covers = narrow.iter().all(|one| wide.contains(one));
        // The tried names are not all there are: a star alone covers a star.
        if b.kind != "*" {
            prop_assert_eq!(resource(&a).covers(&resource(&b)), covers, "{} {}", a.text(), b.text());
        }
        for (kind, name) in wide.iter().filter(|(kind, name)| *kind == "cluster" || !name.is_empty()) {
            let need = Need { operation: Operation::Read, place: place(kind, name) };
            let all = Grants::parse([format!("all on {}", a.text()).as_str()]).expect("grants");
            prop_assert!(decide(&token("ci"), Some(&all), &need).is_ok(), "{need}");
        }
    }

    /// Whoever was handed something by an owner of grants may do nothing that the owner may not.
    #[test]
    fn what_is_handed_out_allows_nothing_that_its_giver_lacks(
        own in proptest::collection::vec(grant(), 1..4),
        given in grant(),
        operation in proptest::sample::select(Operation::ALL),
        asked in model(),
    ) {
        let own = Grants::new(own).expect("some");
        let given = Grants::new(vec![given]).expect("one");
        let place = Place::Of(Resource::parse(&asked.text()).expect("a resource"));
        if own.exceeded_by(&given).is_none() {
            prop_assert!(!given.allow(operation, &place) || own.allow(operation, &place));
        }
    }

    #[test]
    fn no_text_breaks_the_parsers(text in "[a-z,]{0,8}( on )?[a-z/*%0-9 ü]{0,12}", any in ".{0,60}") {
        for text in [text, any] {
            let _ = text.parse::<Grant>();
            let _ = Resource::parse(&text);
            let _ = text.parse::<Token>();
            let _ = format!("lgb_{text}").parse::<Token>();
        }
    }

    #[test]
    fn a_token_that_is_shown_is_read_again(bytes in any::<[u8; 32]>(), name in "[a-z0-9][a-z0-9.-]{0,63}") {
        let name = TokenName::new(&name).expect("a name");
        let token = Token { name, secret: Secret::new(bytes) };
        let shown = token.reveal();
        prop_assert_eq!(shown.parse::<Token>(), Ok(token.clone()));
        prop_assert!(token.secret.hash().is_of(&token.secret));
        // Any letter less is no token.
        let cut: Result<Token, BadToken> = shown[..shown.len() - 1].parse();
        prop_assert!(cut.is_err());
    }
}
