//! Commands on rows in memory.

mod drawn;
mod memory;

#[test]
fn smoke() {
    let mut memory = memory::Memory::new(1);
    println!("{:?}", memory.reply("SET a b"));
    println!("{:?}", memory.reply("GET a"));
}
