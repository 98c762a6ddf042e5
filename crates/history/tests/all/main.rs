//! The checkers against each other, brute force, committed histories and Porcupine, in one program.

mod drawn;
mod small;

mod agree;
mod objects;
mod porcupine;
