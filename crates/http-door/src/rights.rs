//! Tokens at this door: who asks, and whether he may.

use std::sync::Arc;

use access::{Asked, Token};
use hyper::header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE};
use letters::{No, Rights, Shown};
use streams::Path;

use crate::fault::Fault;
use crate::route::{Route, SPACE};
use crate::serve::Door;
use crate::space::now_ms;

/// Before a token, however it is written.
const BEARER: &str = "bearer ";

fn unauthenticated(why: &str) -> Fault {
    let remedy = "send a token that is good: Authorization: Bearer TOKEN";
    let fault = Fault::new(401, "unauthenticated", why, remedy);
    fault.header(WWW_AUTHENTICATE, "Bearer")
}

/// The token in a request.
///
/// Errors: it shows something else. ‡ What that was is not told.
fn token(headers: &HeaderMap) -> Result<Option<Token>, Fault> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = all.next() else {
        return Ok(None);
    };
    let wrong = || unauthenticated("the header Authorization shows no token");
    let text = value.to_str().ok().filter(|_| all.next().is_none());
    let text = text.ok_or_else(wrong)?;
    let (scheme, rest) = text.split_at_checked(BEARER.len()).ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case(BEARER) {
        return Err(wrong());
    }
    rest.trim().parse().map(Some).map_err(|_| wrong())
}

impl Door {
    fn rights(&self) -> Arc<Rights> {
        let told = self.board.as_ref().map(|board| board.now());
        // Where nobody tells anything nothing is asked for.
        told.unwrap_or_else(|| {
            let asks = letters::Asks::Nothing;
            Arc::new(Rights {
                asks,
                ..Rights::default()
            })
        })
    }

    fn asks_nothing(&self) -> bool {
        let board = self.board.as_ref();
        board.is_none_or(|board| board.asks_nothing())
    }

    /// Whether a token that is good was shown.
    pub fn is_somebody(&self, asker: &Shown) -> bool {
        self.rights().grants(asker, now_ms()).is_some()
    }

    /// May he ask for that, with what stands in the request's headers?
    ///
    /// Errors: as those of [`Door::judge`], and of a fork whose source makes no sense.
    pub fn judge_route(
        &self,
        asker: &Shown,
        route: &Route,
        headers: &HeaderMap,
        is_filled: bool,
    ) -> Result<(), Fault> {
        if self.asks_nothing() {
            return Ok(());
        }
        let fork = match route {
            Route::Create(_) => crate::headers::fork(headers)?,
            _ => None,
        };
        let source = fork.as_ref().map(|fork| &fork.source);
        self.judge(asker, &route.asked(is_filled, source))
    }

    /// Whoever asks. Where nobody is asked for a token, nothing is looked at.
    pub fn asker(&self, headers: &HeaderMap) -> Result<Shown, Fault> {
        if self.asks_nothing() {
            return Ok(Shown::Nothing);
        }
        let Some(token) = token(headers)? else {
            return Ok(Shown::Nothing);
        };
        let rights = self.rights();
        if rights.asks == letters::Asks::NotKnown {
            return Err(not_known());
        }
        let shown = rights.take(&token, now_ms());
        shown.ok_or_else(|| {
            unauthenticated("this token is not known here, has expired or was revoked")
        })
    }

    /// May he ask for that?
    ///
    /// Errors: 401, 403; 404 where nothing of that name may be known to him.
    pub fn judge(&self, asker: &Shown, asked: &Asked) -> Result<(), Fault> {
        if self.asks_nothing() {
            return Ok(());
        }
        match self.rights().judge(asker, asked, now_ms()) {
            Ok(()) => Ok(()),
            Err(No::NotKnown) => Err(not_known()),
            Err(No::Unauthenticated) => Err(unauthenticated("a token is needed")),
            // ‡ Whoever may nothing there is told the same as where there is nothing.
            Err(No::Forbidden(denied))
                if denied.hides_the_place() && !matches!(asked, Asked::CreateStream { .. }) =>
            {
                Err(Fault::not_found())
            }
            Err(No::Forbidden(denied)) => Err(Fault::new(
                403,
                "forbidden",
                denied.to_string(),
                "ask with another token, or for what this one may",
            )),
        }
    }

    /// Whether a reader that was let in may go on.
    pub fn may_go_on(&self, asker: &Shown, path: &Path) -> Result<(), Fault> {
        let (space, path) = (SPACE, path.as_str());
        self.judge(asker, &Asked::ReadStream { space, path })
    }

    pub fn may_read(&self, asker: &Shown, path: &str) -> bool {
        let space = SPACE;
        self.judge(asker, &Asked::ReadStream { space, path })
            .is_ok()
    }
}

fn not_known() -> Fault {
    Fault::not_now("this node does not know yet whether tokens are asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn a_token_stands_behind_bearer_and_nothing_of_another_is_shown() {
        let secret = "A".repeat(43);
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).expect("text"));
            token(&headers)
        };
        for value in [
            format!("Bearer lgb_ci_{secret}"),
            format!("bearer  lgb_ci_{secret}"),
        ] {
            let token = read(&value).expect("a token").expect("it is there");
            assert_eq!(token.name.as_str(), "ci");
        }
        for value in ["Basic abc", "Bearer", "Bearer lgb_ci_short", "lgb_ci_x"] {
            let fault = read(value).expect_err("it is none");
            assert_eq!(fault.status, 401);
            assert!(!fault.message.contains("ci") && !fault.message.contains("abc"));
        }
        assert_eq!(token(&HeaderMap::new()), Ok(None));
    }
}
