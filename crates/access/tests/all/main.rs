//! Grants: by tables, and drawn.

mod drawn;
mod grants;
mod table;
mod tokens;
