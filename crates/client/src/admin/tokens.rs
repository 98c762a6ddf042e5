//! Tokens: who may do what.

use wire::told::{AuthTold, ChangeTold, Explained, IssuerTold, TokenTold, WhoTold};

use crate::Client;
use crate::asked::{AdminError, Json};
use crate::request::Request;

/// A token that is to be made. Its secret stays with whoever makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name in lists and in the audit.
    pub name: String,
    /// The SHA-256 of its secret, in hexadecimal. None: it has no secret, and its owner shows a client's certificate of that name.
    pub sha256: Option<String>,
    /// `OPERATION,… on RESOURCE` each.
    pub grants: Vec<String>,
    /// In milliseconds since the beginning of 1970; never, if there is none.
    pub expires_ms: Option<u64>,
    /// It is for one node that joins, and for no other.
    pub once: bool,
    /// Who joins by it gets the name of that node, whose disk is lost.
    pub replaces: Option<u32>,
}

impl Client {
    fn ask_json<T: serde::de::DeserializeOwned>(&self, request: &Request) -> Result<T, AdminError> {
        self.cluster.ask(request, self.deadline())?.json()
    }

    /// Whoever signs tickets, in the order of their names.
    pub fn issuers(&self) -> Result<Vec<IssuerTold>, AdminError> {
        self.ask_json(&Request::Issuers { name: None })
    }

    /// Errors: [`AdminError::Refused`] if there is no such issuer.
    pub fn issuer(&self, name: &str) -> Result<IssuerTold, AdminError> {
        let name = Some(name.to_owned());
        let found: Vec<IssuerTold> = self.ask_json(&Request::Issuers { name })?;
        found.into_iter().next().ok_or_else(|| AdminError::Garbled {
            server: String::new(),
            what: "no issuer where one was asked for".to_owned(),
        })
    }

    /// Makes an issuer, or changes it where `replace` allows that. `keys`: public ones, `EdDSA:BASE64URL` or `ES256:BASE64URL`;
    /// `grants`: what its tickets may at most. The same request again changes nothing.
    ///
    /// Errors: [`AdminError::Refused`] if there is one of that name, or it would allow what the asker may not.
    pub fn put_issuer(
        &self,
        name: &str,
        keys: Vec<String>,
        grants: Vec<String>,
        replace: bool,
    ) -> Result<IssuerTold, AdminError> {
        self.ask_json(&Request::PutIssuer {
            name: name.to_owned(),
            keys,
            grants,
            replace,
        })
    }

    /// The issuer that [`Client::remove_issuer`] would remove. Nothing is changed.
    pub fn plan_remove_issuer(&self, name: &str) -> Result<IssuerTold, AdminError> {
        self.ask_json(&Request::RemoveIssuer {
            name: name.to_owned(),
            plan: true,
        })
    }

    /// Removes an issuer for good: its tickets are good no more, at each node once that hears of it.
    pub fn remove_issuer(&self, name: &str) -> Result<(), AdminError> {
        let request = Request::RemoveIssuer {
            name: name.to_owned(),
            plan: false,
        };
        self.ask_json::<serde_json::Value>(&request).map(|_| ())
    }

    /// All tokens, without their secrets, in the order of their names.
    pub fn tokens(&self) -> Result<Vec<TokenTold>, AdminError> {
        self.ask_json(&Request::Tokens {
            name: None,
            after: None,
            limit: None,
        })
    }

    /// Errors: [`AdminError::Refused`] if there is no such token.
    pub fn token(&self, name: &str) -> Result<TokenTold, AdminError> {
        let request = Request::Tokens {
            name: Some(name.to_owned()),
            after: None,
            limit: None,
        };
        let found: Vec<TokenTold> = self.ask_json(&request)?;
        found.into_iter().next().ok_or_else(|| AdminError::Garbled {
            server: String::new(),
            what: "no token where one was asked for".to_owned(),
        })
    }

    /// Makes a token. The same request again is no second one.
    ///
    /// Errors: [`AdminError::Refused`] if there is one of that name, or it would allow what the asker may not.
    pub fn create_token(&self, token: &NewToken) -> Result<TokenTold, AdminError> {
        let NewToken {
            name,
            sha256,
            grants,
            expires_ms,
            once,
            replaces,
        } = token.clone();
        self.ask_json(&Request::PutToken {
            name,
            sha256,
            grants,
            expires_ms,
            once,
            replaces,
        })
    }

    /// Gives a token another secret. `overlap_ms`: so long the one before is good as well.
    pub fn rotate_token(
        &self,
        name: &str,
        sha256: &str,
        overlap_ms: u64,
    ) -> Result<TokenTold, AdminError> {
        self.ask_json(&Request::RotateToken {
            name: name.to_owned(),
            sha256: sha256.to_owned(),
            overlap_ms,
        })
    }

    /// The token that [`Client::revoke_token`] would revoke. Nothing is changed.
    pub fn plan_revoke_token(&self, name: &str) -> Result<TokenTold, AdminError> {
        self.ask_json(&Request::RevokeToken {
            name: name.to_owned(),
            plan: true,
        })
    }

    /// Revokes a token for good. Returns once that is chosen; each node ends its connections when it hears of it.
    pub fn revoke_token(&self, name: &str) -> Result<(), AdminError> {
        let request = Request::RevokeToken {
            name: name.to_owned(),
            plan: false,
        };
        self.ask_json::<serde_json::Value>(&request).map(|_| ())
    }

    /// Whether tokens are to be asked for from now on; or what that would come to.
    pub fn set_auth(&self, on: bool, plan: bool) -> Result<AuthTold, AdminError> {
        self.ask_json(&Request::SetAuth { on, plan })
    }

    /// This client, as the server that answers sees it.
    pub fn whoami(&self) -> Result<WhoTold, AdminError> {
        self.ask_json(&Request::WhoAmI)
    }

    /// Whether a token, or this client itself, may do something.
    pub fn explain(
        &self,
        token: Option<&str>,
        operation: &str,
        resource: &str,
    ) -> Result<Explained, AdminError> {
        self.ask_json(&Request::Explain {
            operation: operation.to_owned(),
            resource: resource.to_owned(),
            token: token.map(str::to_owned),
        })
    }

    /// The last changes that somebody asked for, the oldest first.
    pub fn audit(&self, limit: Option<u64>) -> Result<Vec<ChangeTold>, AdminError> {
        self.ask_json(&Request::Audit { limit })
    }
}
