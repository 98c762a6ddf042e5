//! A bank on three nodes: `bank DIRECTORY LISTEN [SERVER]`, the first without a server. It takes a command from each line:
//! `deposit anna 5`, `transfer anna bert 3`, `balance anna`. The nodes may be killed and started again, in any order.

use std::io::{self, BufRead};

use embed::{Failure, Machine, Node, State, Stop};

pub struct Bank;

fn coins(state: &mut State<'_>, name: &str) -> Result<u64, Stop> {
    let coins = state.get(name.as_bytes())?;
    Ok(coins.map_or(0, |coins| number(&coins)))
}

pub fn number(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).parse().unwrap_or(0)
}

impl Machine for Bank {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let command = String::from_utf8_lossy(command);
        let words: Vec<&str> = command.split(' ').collect();
        let (from, to, sum) = match words[..] {
            ["deposit", to, sum] => (None, to, number(sum.as_bytes())),
            ["transfer", from, to, sum] => (Some(from), to, number(sum.as_bytes())),
            _ => {
                return Err(Stop::refused(
                    "say deposit NAME SUM, or transfer NAME NAME SUM",
                ));
            }
        };
        if let Some(from) = from {
            let rest = coins(state, from)?.checked_sub(sum);
            let rest = rest.ok_or_else(|| Stop::refused(format!("{from} has not so much")))?;
            state.put(from.as_bytes(), rest.to_string().as_bytes())?;
        }
        let sum = (coins(state, to)? + sum).to_string();
        state.put(to.as_bytes(), sum.as_bytes())?;
        Ok(sum.into_bytes())
    }
}

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, listen, servers @ ..] = &arguments[..] else {
        return Err("say DIRECTORY LISTEN [SERVER]".into());
    };
    let node = Node::open(directory).listen(listen).bootstrap(3);
    let node = servers.iter().fold(node, |node, server| node.join(server));
    let node = node.machine("bank", Bank).start()?;
    let bank = node.machine("bank");
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer: Result<Vec<u8>, Failure> = match line.strip_prefix("balance ") {
            None => bank.submit(line.as_bytes()),
            Some(name) => {
                let name = name.as_bytes().to_vec();
                let coins = bank.read(move |rows| rows.get(&name));
                coins.map(|coins| coins.ok().flatten().unwrap_or_else(|| b"0".to_vec()))
            }
        };
        match answer {
            Ok(coins) => println!("{}", String::from_utf8_lossy(&coins)),
            Err(failure) => println!("! {failure:?}"),
        }
    }
    Ok(())
}
