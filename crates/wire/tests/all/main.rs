//! What the page, golden lines and the declarations say of each other.

mod answers;
mod page;
mod requests;
