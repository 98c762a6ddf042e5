//! Both protocols, as their users see them.

mod beside;
mod drawn;
mod replies;
mod requests;
