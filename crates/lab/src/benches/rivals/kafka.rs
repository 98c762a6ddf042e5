//! Kafka: three nodes that are brokers and controllers, one partition on all three, acks of all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::service::{Servers, command, find, said};
use super::{Durability, Load, Made, Running};
use testbed::port;
use testbed::watch::sleep_until;

pub const HOW_TO_GET: &str = "Kafka is skipped: install java, and put the jars of a Kafka release (Maven's \
    org.apache.kafka:kafka_2.13, kafka-server and kafka-tools with what they need) into DIR/kafka/libs of --rivals DIR";

pub struct Installed {
    java: PathBuf,
    jars: PathBuf,
}

pub struct Kafka {
    servers: Servers,
    tools: Tools,
    bootstrap: String,
    topics: u32,
}

struct Tools {
    java: PathBuf,
    jars: PathBuf,
    directory: PathBuf,
}

const NODES: usize = 3;
/// Any that is 16 bytes in base 64.
const CLUSTER_ID: &str = "bG9nYmVyZ2JlbmNocml2YQ";
const PATIENCE: Duration = Duration::from_secs(90);
const LOGGING: &str = "<Configuration><Appenders><Console name=\"C\" target=\"SYSTEM_ERR\"/></Appenders>\
    <Loggers><Root level=\"WARN\"><AppenderRef ref=\"C\"/></Root></Loggers></Configuration>";
/// Tuned for throughput: large batches, and time to fill them.
const PRODUCER: [&str; 5] = [
    "acks=all",
    "batch.size=1048576",
    "linger.ms=5",
    "buffer.memory=134217728",
    "max.request.size=10485760",
];

pub fn installed(directory: Option<&Path>) -> Option<Installed> {
    let jars = directory?.join("kafka/libs");
    let there = fs::read_dir(&jars).ok()?.flatten().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("kafka_2.13")
    });
    Some(Installed {
        java: find("java", None)?,
        jars: there.then_some(jars)?,
    })
}

impl Tools {
    fn java(&self, heap: &str, class: &str) -> Command {
        let mut java = command(&self.java, &self.directory);
        java.arg(format!("-Xmx{heap}")).arg(format!("-Xms{heap}"));
        let logging = self.directory.join("log4j2.xml");
        java.arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
        java.arg("-cp").arg(self.jars.join("*")).arg(class);
        java
    }

    fn said(&self, command: Command, patience: Duration) -> Result<String> {
        said(command, &self.directory.join("said"), patience)
    }
}

impl Installed {
    pub fn start(&self, directory: &Path, durability: Durability) -> Result<Kafka> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("log4j2.xml"), LOGGING)?;
        let tools = Tools {
            java: self.java.clone(),
            jars: self.jars.clone(),
            directory: directory.to_owned(),
        };
        let ports = port::free(2 * NODES as u32)?;
        let (brokers, controllers) = ports.split_at(NODES);
        let voters: Vec<String> = (1..)
            .zip(controllers)
            .map(|(id, port): (u32, _)| format!("{id}@127.0.0.1:{port}"))
            .collect();
        let flush = match durability {
            Durability::Received => "",
            Durability::Durable => "log.flush.interval.messages=1\n",
        };
        let mut servers = Servers::default();
        for (id, (broker, controller)) in (1..).zip(brokers.iter().zip(controllers)) {
            let id: u32 = id;
            let logs = directory.join(format!("b{id}"));
            let config = format!(
                "process.roles=broker,controller\nnode.id={id}\n\
                 controller.quorum.voters={}\n\
                 listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
                 advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
                 controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n\
                 log.dirs={}\ndefault.replication.factor=3\nmin.insync.replicas=2\n\
                 offsets.topic.replication.factor=3\nmessage.max.bytes=10485760\n\
                 replica.fetch.max.bytes=10485760\n{flush}",
                voters.join(","),
                logs.display(),
            );
            let path = directory.join(format!("b{id}.properties"));
            fs::write(&path, config)?;
            let mut format = tools.java("128m", "kafka.tools.StorageTool");
            format.args(["format", "-t", CLUSTER_ID, "-c"]).arg(&path);
            tools.said(format, PATIENCE)?;
            let mut server = tools.java("1g", "kafka.Kafka");
            server.arg(&path);
            servers.start(server, &directory.join(format!("b{id}.log")))?;
        }
        servers.wait_listening(brokers, PATIENCE)?;
        let addresses = brokers.iter().map(|port| format!("127.0.0.1:{port}"));
        Ok(Kafka {
            servers,
            tools,
            bootstrap: addresses.collect::<Vec<_>>().join(","),
            topics: 0,
        })
    }
}

impl Running for Kafka {
    fn pids(&self) -> Vec<u32> {
        self.servers.pids()
    }

    /// A topic with its number.
    fn prepare(&mut self) -> Result<usize> {
        self.topics += 1;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let class = "org.apache.kafka.tools.TopicCommand";
            let mut create = self.tools.java("128m", class);
            create.args(["--bootstrap-server", &self.bootstrap, "--create", "--topic"]);
            create
                .arg(format!("t{}", self.topics))
                .arg("--if-not-exists");
            create.args(["--partitions", "1", "--replication-factor", "3"]);
            match self.tools.said(create, PATIENCE) {
                Ok(_) => return Ok(self.topics as usize),
                // Its brokers first have to find each other.
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep_until(Instant::now() + Duration::from_secs(1))?,
            }
        }
    }

    fn produce(&mut self, target: usize, load: Load) -> Result<Made> {
        let class = "org.apache.kafka.tools.ProducerPerformance";
        let mut produce = self.tools.java("512m", class);
        produce.arg("--topic").arg(format!("t{target}"));
        produce.arg("--num-records").arg(load.messages.to_string());
        produce
            .arg("--record-size")
            .arg(load.message_bytes.to_string());
        produce.args(["--throughput", "-1", "--producer-props"]);
        produce.arg(format!("bootstrap.servers={}", self.bootstrap));
        produce.args(PRODUCER);
        let text = self.tools.said(produce, load.patience)?;
        summary(&text).context("Kafka's ProducerPerformance said no summary")
    }
}

/// Parses `50000 records sent, 12345.6 records/sec (12 MB/sec), …, 3 ms 50th, … 9 ms 99th, 10 ms 99.9th.`
fn summary(text: &str) -> Option<Made> {
    let line = text.lines().rev().find(|line| line.contains("99.9th"))?;
    let before = |what: &str| {
        let (before, _) = line.split_once(what)?;
        before.rsplit(' ').next()?.parse().ok()
    };
    Some(Made {
        messages_per_s: before(" records/sec")?,
        p50_ms: before(" ms 50th"),
        p99_ms: before(" ms 99th"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_line_with_all_percentiles() {
        let text = "10 records sent, 9.0 records/sec (0.01 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.\n\
            5000 records sent, 998.4 records/sec (62.40 MB/sec), 31.5 ms avg latency, 90.0 ms max latency, \
            30 ms 50th, 60 ms 95th, 80 ms 99th, 89 ms 99.9th.\n";
        let made = summary(text).unwrap();
        assert_eq!(made.messages_per_s, 998.4);
        assert_eq!((made.p50_ms, made.p99_ms), (Some(30.0), Some(80.0)));
        assert!(summary("nothing").is_none());
    }
}
