//! A hub of few lines that does to each request what its script says, and remembers what it got.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast_client::{Client, ClientError, ClientOptions, Prepare, Reply};
use holdfast_domain::effects::{Outcome, Subject};
use holdfast_domain::ids::{ParticipantId, TransferId, TransferNo};
use holdfast_domain::money::{Amount, Balance};
use holdfast_domain::records;
use holdfast_domain::records::batch::{HEADER_LEN, read_request_header, write_replies};
use holdfast_domain::transfers::TransferState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What the hub does to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Answers,
    /// Answers when `release` is called.
    Waits,
    CutsAtOnce,
    CutsHalfAReply,
    RepliesToFewer,
    Garbage,
    NotHttp,
    Hangs,
    Status(u16, Option<u32>),
    /// 400 for a batch with this transfer in it.
    RefusesTransfer(u128),
}

/// The transfer ids of one request.
pub type Seen = Vec<u128>;

pub struct Hub {
    pub address: String,
    seen: Mutex<Vec<Seen>>,
    under_way: Mutex<Vec<u128>>,
    pub doubled: AtomicUsize,
    pub release: Notify,
    pub arrived: Notify,
}

impl Hub {
    /// A hub that works through `script`, one step per request, and then stays with its last step.
    pub async fn start(script: &[Does]) -> Arc<Hub> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hub = Arc::new(Hub {
            address: listener.local_addr().unwrap().to_string(),
            seen: Mutex::default(),
            under_way: Mutex::default(),
            doubled: AtomicUsize::new(0),
            release: Notify::new(),
            arrived: Notify::new(),
        });
        let (serving, script) = (Arc::clone(&hub), script.to_vec());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (hub, script) = (Arc::clone(&serving), script.clone());
                tokio::spawn(async move { hub.serve(stream, &script).await });
            }
        });
        hub
    }

    pub fn options(&self) -> ClientOptions {
        ClientOptions {
            connections: 2,
            deadline: Duration::from_millis(400),
            attempt_max: Duration::from_millis(100),
            ..ClientOptions::to(&self.address)
        }
    }

    /// A client that does not give up soon.
    pub async fn patient_client(&self, connections: usize) -> Client {
        let options = ClientOptions { connections, deadline: Duration::from_secs(30), ..self.options() };
        Client::connect(options).await.unwrap()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until so many requests have come.
    pub async fn wait_for(&self, requests: usize) {
        while self.seen().len() < requests {
            self.arrived.notified().await;
        }
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream, script: &[Does]) -> Option<()> {
        loop {
            let body = read_request(&mut stream).await?;
            let ids = ids_of(&body);
            let number = {
                let mut seen = self.seen.lock().unwrap();
                seen.push(ids.clone());
                seen.len() - 1
            };
            {
                let mut under_way = self.under_way.lock().unwrap();
                let doubled = ids.iter().filter(|id| under_way.contains(id)).count();
                self.doubled.fetch_add(doubled, Ordering::SeqCst);
                under_way.extend(&ids);
            }
            self.arrived.notify_one();
            let goes_on = self.act(&mut stream, script[number.min(script.len() - 1)], &ids).await;
            self.under_way.lock().unwrap().retain(|id| !ids.contains(id));
            goes_on?;
        }
    }

    /// `None`: the connection is to be closed.
    async fn act(&self, stream: &mut TcpStream, does: Does, ids: &[u128]) -> Option<()> {
        let good = replies(ids.len());
        match does {
            Does::Answers => respond(stream, 200, None, &good).await,
            Does::Waits => {
                self.release.notified().await;
                respond(stream, 200, None, &good).await
            }
            Does::CutsAtOnce => None,
            Does::CutsHalfAReply => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", good.len());
                stream.write_all(head.as_bytes()).await.ok()?;
                stream.write_all(&good[..good.len() / 2]).await.ok()?;
                None
            }
            Does::RepliesToFewer => respond(stream, 200, None, &replies(0)).await,
            Does::Garbage => respond(stream, 200, None, b"this is no reply").await,
            Does::NotHttp => {
                stream.write_all(b"SSH-2.0-nothing\r\n").await.ok()?;
                None
            }
            Does::Hangs => {
                // Until the client gives up the connection.
                let _: std::io::Result<usize> = stream.read(&mut [0; 1]).await;
                None
            }
            Does::Status(status, retry_after) => respond(stream, status, retry_after, b"no").await,
            Does::RefusesTransfer(id) if ids.contains(&id) => {
                respond(stream, 400, None, b"a bad record").await
            }
            Does::RefusesTransfer(_) => respond(stream, 200, None, &good).await,
        }
    }
}

fn ids_of(body: &[u8]) -> Seen {
    let count = read_request_header(body).unwrap();
    let commands = records::read_all(&body[HEADER_LEN..]).unwrap();
    assert_eq!(commands.len(), count as usize);
    commands.iter().map(|command| command.transfer().map_or(0, |id| id.0)).collect()
}

fn replies(count: usize) -> Vec<u8> {
    let state = Some(TransferState::Reserved);
    let subject = Subject::Transfer(TransferNo(7));
    let outcome =
        Outcome { state, code: None, reason: None, subject, value: Balance(5), token: None, shop: None };
    write_replies(&vec![outcome; count])
}

async fn respond(stream: &mut TcpStream, status: u16, retry_after: Option<u32>, body: &[u8]) -> Option<()> {
    let retry = retry_after.map_or(String::new(), |seconds| format!("retry-after: {seconds}\r\n"));
    let head = format!("HTTP/1.1 {status} X\r\n{retry}content-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body).await.ok()
}

async fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
    while bytes.len() < head_end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(bytes.split_off(head_end))
}

pub fn prepare(id: u128) -> Prepare {
    Prepare {
        id: TransferId(id),
        payer: ParticipantId(1),
        payee: ParticipantId(2),
        amount: Amount(10_000),
        currency: "USD".parse().unwrap(),
        expiration: 4_102_444_800_000,
        condition: [3; 32],
    }
}

/// A caller on a task of its own.
pub fn caller(client: &Client, id: u128) -> JoinHandle<Result<Reply, ClientError>> {
    let client = client.clone();
    tokio::spawn(async move { client.prepare(prepare(id)).await })
}
