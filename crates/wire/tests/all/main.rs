//! The page, golden lines and the declarations are compared with each other.

mod answers;
mod page;
mod requests;
