//! The checkers against each other, brute force, committed histories and Porcupine, in one program.

mod small;

mod agree;
mod porcupine;
