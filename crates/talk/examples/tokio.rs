//! An async runtime drives `talk`: `echo hello | cargo run -p logberg-talk --example tokio -- main HOST:PORT`
use logberg_talk::{AppendOptions, Appender, Input, Known, Link, Output, Said, Timeouts};
use std::{collections::BTreeMap, error::Error, io, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::{UnboundedReceiver as Says, UnboundedSender as Tell, unbounded_channel};
use tokio::{net::TcpStream, select, time};

type Dial = (Link, String, Duration);
async fn serve(dial: Dial, mut says: Says<Vec<u8>>, tell: &Tell<Input<'_>>) -> io::Result<()> {
    let mut stream = time::timeout(dial.2, TcpStream::connect(dial.1)).await??;
    let _ = tell.send(Input::Connected(dial.0));
    let mut bytes = vec![0; 16 << 10];
    loop {
        select! {
            said = says.recv() => stream.write_all(&said.ok_or(io::ErrorKind::NotConnected)?).await?,
            count = stream.read(&mut bytes) => match count? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => drop(tell.send(Input::Received(dial.0, bytes[..count].to_vec().into()))),
            },
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut words, text) = (std::env::args().skip(1), io::read_to_string(io::stdin())?);
    let options = AppendOptions::to(&words.next().ok_or("say a log, and servers")?);
    let (began, mut rest) = (time::Instant::now(), text.as_bytes());
    let mut known = Known::new(words, u64::from(std::process::id()));
    let mut talk = Appender::new(Duration::ZERO, &known, options, Timeouts::default());
    let (tell, mut hear) = unbounded_channel();
    let (mut links, mut input) = (BTreeMap::<Link, Tell<Vec<u8>>>::new(), Input::Time);
    while talk.outcome().is_none() {
        talk.handle(began.elapsed(), &mut known, &input);
        rest = &rest[talk.write(rest)..];
        if rest.is_empty() && talk.is_open() {
            talk.close(began.elapsed());
        }
        while let Some(output) = talk.poll_output().or_else(|| talk.send_some()) {
            match output {
                Output::Close(link) => drop(links.remove(&link)),
                Output::Send(link, bytes) => drop(links.get(&link).map(|says| says.send(bytes))),
                Output::Connect(link, server, within) => {
                    let ((says, hears), tell) = (unbounded_channel(), tell.clone());
                    links.insert(link, says);
                    tokio::spawn(async move {
                        let ended = serve((link, server, within), hears, &tell).await;
                        ended.map_err(|error| tell.send(Input::Lost(link, Said::from(&error))))
                    });
                }
            }
        }
        let due = talk.deadline().unwrap_or(Duration::from_secs(1 << 20));
        let heard = time::timeout_at(began + due, hear.recv()).await;
        input = heard.ok().flatten().unwrap_or(Input::Time);
    }
    println!("{:?}", talk.outcome());
    Ok(())
}
