//! By whom the bytes of a kernel's connections are sealed and opened.

use std::io;
use std::sync::Arc;

use linux::Handed;
use ops::ClientCertificate;

use crate::handshake::Shaken;
use crate::{cipher, in_place, pair, pump};

/// Chosen for all connections of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// By the kernel's own thread, where the bytes lie.
    InPlace,
    /// By a pump, which has threads of its own, behind a pair of sockets.
    ByPump,
}

/// Whom a connection is with.
pub struct With {
    /// The address, for people.
    pub peer: String,
    pub node: Option<String>,
    pub client: Option<ClientCertificate>,
}

impl Moved {
    /// `moves_by_calls`: the kernel does ([`linux::Kernel::moves_by_calls`]).
    pub fn choose(moves_by_calls: bool) -> Moved {
        match moves_by_calls && cipher::is_cheap() {
            true => Moved::InPlace,
            false => Moved::ByPump,
        }
    }

    /// A socket and its seal, to be handed to a kernel. `held`: for as long as the connection lives.
    pub(crate) fn hand(
        self,
        shaken: Shaken,
        with: With,
        held: impl Send + 'static,
    ) -> io::Result<Handed> {
        let (socket, far, seal) = match self {
            Moved::InPlace => {
                let (socket, seal) = in_place::new(shaken, held)?;
                (socket, None, Some(seal))
            }
            Moved::ByPump => {
                let ((near, word), (far, ends)) = pair::new()?;
                tokio::spawn(async move {
                    pump::run(shaken, far, ends).await;
                    drop(held);
                });
                let far: Arc<dyn linux::FarEnd> = Arc::new(word);
                (near, Some(far), None)
            }
        };
        Ok(Handed {
            socket,
            peer: with.peer,
            node: with.node,
            client: with.client,
            far,
            seal,
        })
    }
}
