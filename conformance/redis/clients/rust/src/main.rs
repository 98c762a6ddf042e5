//! redis-rs. README.md says what is read and printed.

use std::env;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::{RedisError, Value};

fn flat(value: &Value) -> String {
    let all = |items: &mut dyn Iterator<Item = &Value>| items.map(flat).collect::<Vec<_>>().join(" ");
    match value {
        Value::Nil => "nil".into(),
        Value::Okay => "OK".into(),
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Array(items) | Value::Set(items) => all(&mut items.iter()),
        Value::Map(pairs) => all(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
        other => format!("{other:?}"),
    }
}

fn call(connection: &mut ClusterConnection, command: &[String]) -> Result<Value, RedisError> {
    redis::cmd(&command[0]).arg(&command[1..]).query(connection)
}

fn main() {
    let text = std::fs::read_to_string(env::var("SCENARIO").unwrap()).unwrap();
    let scenario: serde_json::Value = serde_json::from_str(&text).unwrap();
    let lists = |name: &str| -> Vec<Vec<String>> { serde_json::from_value(scenario[name].clone()).unwrap() };
    let nodes = env::var("NODES").unwrap();
    let nodes: Vec<String> = nodes.split(',').map(|node| format!("redis://{node}")).collect();
    let mut connection = ClusterClient::new(nodes).unwrap().get_connection().unwrap();
    println!("version 1.8.1");
    for command in lists("prepare") {
        call(&mut connection, &command).unwrap();
    }
    if env::var_os("CHECKS").is_some() {
        for (number, command) in lists("commands").iter().enumerate() {
            if command[0] == "SLEEP" {
                sleep(Duration::from_millis(command[1].parse().unwrap()));
                continue;
            }
            match call(&mut connection, command) {
                Ok(value) => println!("reply {number} {}", flat(&value)),
                Err(error) => println!("reply {number} {error}"),
            }
        }
        let mut pipeline = cluster_pipe();
        for command in lists("pipeline") {
            pipeline.cmd(&command[0]).arg(&command[1..]);
        }
        let replies: Result<Vec<Value>, _> = pipeline.query(&mut connection);
        println!("piped {}", replies.map_or_else(|error| error.to_string(), |all| flat(&Value::Array(all))));
        println!("note transactions and SCAN over a cluster are not offered by its synchronous connection");
    }
    println!("ready");
    let seconds: f64 = env::var("SECONDS").unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    for (number, command) in lists("operations").iter().enumerate() {
        if Instant::now() > end {
            break;
        }
        let began = Instant::now();
        let (outcome, reply) = match call(&mut connection, command) {
            Ok(value) => ("done", flat(&value)),
            Err(error) if error.code().is_some() => ("refused", error.to_string()),
            Err(error) => ("unknown", format!("{:?}: {error}", error.kind())),
        };
        println!("op {number} {outcome} {} {}", began.elapsed().as_millis(), reply.replace('\n', " "));
        sleep(Duration::from_millis(scenario["pause_ms"].as_u64().unwrap()));
    }
    println!("end");
}
