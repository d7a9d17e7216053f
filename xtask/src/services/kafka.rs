//! Apache Kafka: one node that is broker and controller, from the jars that Maven fetches.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::install::install;
use super::process::{Mark, ServiceFolder};
use super::{KAFKA_VARIABLE, Service};
use crate::tools::{copy_dependencies, in_path, remove, rename, run, write};

/// Names the versions.
const POM: &str = include_str!("kafka.pom.xml");
/// A fixed id saves a start of Java that would only make one up.
const CLUSTER: &str = "holdfastTestsCluster0A";
/// The serial collector starts as fast as any on few cores and takes the least memory.
const JAVA: [&str; 6] = [
    "-Xms256m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
];
/// How long one answer of the broker may take.
const ANSWER: Duration = Duration::from_secs(2);
/// The longest answer to a question about no topics, with room to spare.
const ANSWER_BYTES_MAX: usize = 4096;

pub(super) static KAFKA: Service = Service {
    name: "kafka",
    port_names: &["port", "controllerPort"],
    address: |port| ("bootstrap", format!("127.0.0.1:{port}")),
    variable: |port| (KAFKA_VARIABLE, format!("kafka://127.0.0.1:{port}")),
    client: |place| {
        Some(("HOLDFAST_TEST_KAFKA_CLIENT".to_owned(), place.dir.join("lib").display().to_string()))
    },
    setting: "HOLDFAST_LOG",
    mark: |place| Mark { program: "java", argument: settings_path(place) },
    stop_signal: "TERM",
    prepare,
    command,
    is_ready: |_, ports| brokers(ports[0]).is_ok_and(|count| count > 0),
    passes: |_| false,
};

fn prepare(place: &ServiceFolder) -> Result<(), String> {
    if in_path("java").is_none() {
        install("Java", "default-jre-headless", KAFKA_VARIABLE)?;
    }
    fetch_jars(place)?;
    if place.data().exists() {
        return Ok(());
    }
    // As with PostgreSQL: complete or not there.
    let new = place.dir.join("data.new");
    remove(&new)?;
    let format = place.dir.join("format.properties");
    // The ports do not enter the data.
    write_for_all(&format, &settings(&new, &[9092, 9093]))?;
    let mut storage = java(place, "kafka.tools.StorageTool");
    run(storage.args(["format", "--cluster-id", CLUSTER, "--config"]).arg(&format))?;
    rename(&new, &place.data())
}

fn command(place: &ServiceFolder, ports: &[u16]) -> Result<Command, String> {
    let path = settings_path(place);
    write_for_all(&path, &settings(&place.data(), ports))?;
    let mut kafka = java(place, "kafka.Kafka");
    kafka.arg(path);
    Ok(kafka)
}

fn settings_path(place: &ServiceFolder) -> PathBuf {
    place.dir.join("server.properties")
}

fn java(place: &ServiceFolder, class: &str) -> Command {
    let mut command = place.command("java");
    command.args(JAVA).arg("-cp").arg(place.dir.join("lib/*")).arg(class);
    command
}

fn settings(data: &Path, ports: &[u16]) -> String {
    let [broker, controller] = [ports[0], ports[1]];
    let data = data.display();
    // The voters are named here and not in the data, so that the ports may change. A broker that was killed is let
    // in again when its session has run out: three seconds instead of nine.
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.dirs={data}
num.partitions=4
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"
    )
}

/// Fetches the jars if those of this POM are not there. Its copy beside them says which they are.
fn fetch_jars(place: &ServiceFolder) -> Result<(), String> {
    let lib = place.dir.join("lib");
    if fs::read_to_string(lib.join("pom.xml")).is_ok_and(|pom| pom == POM) {
        return Ok(());
    }
    if in_path("mvn").is_none() {
        install("Maven", "maven", KAFKA_VARIABLE)?;
    }
    eprintln!("xtask: fetching Kafka's jars with Maven");
    let new = place.dir.join("lib.new");
    remove(&new)?;
    let pom = place.dir.join("pom.xml");
    write_for_all(&pom, POM)?;
    copy_dependencies(&pom, &new, &["-DincludeScope=runtime"])?;
    let made_readable = fs::read_dir(&new)
        .and_then(|mut jars| {
            jars.try_for_each(|jar| fs::set_permissions(jar?.path(), Permissions::from_mode(0o644)))
        })
        .and_then(|()| fs::set_permissions(&new, Permissions::from_mode(0o755)));
    made_readable.map_err(|error| format!("xtask: cannot use the jars in {}: {error}", new.display()))?;
    write_for_all(&new.join("pom.xml"), POM)?;
    remove(&lib)?;
    rename(&new, &lib)
}

/// Writes a file that the service's account may read, whatever the caller's umask.
fn write_for_all(path: &Path, text: &str) -> Result<(), String> {
    write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
        .map_err(|error| format!("xtask: cannot open {} to all: {error}", path.display()))
}

/// Asks for the metadata of no topics. A broker that is not yet let into its cluster is not in the list.
fn brokers(port: u16) -> io::Result<u32> {
    // Length; then key 3 (metadata), version 1, correlation id 7, no client id, no topics.
    const QUESTION: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(&QUESTION)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > ANSWER_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    count_of_brokers(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The answer opens with the correlation id and the length of the list of brokers.
fn count_of_brokers(answer: &[u8]) -> Option<u32> {
    let (correlation, rest) = answer.split_first_chunk::<4>()?;
    let count = u32::from_be_bytes(*rest.first_chunk()?);
    (*correlation == [0, 0, 0, 7]).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::count_of_brokers;

    #[test]
    fn brokers_are_counted_only_in_an_answer_to_our_question() {
        assert_eq!(count_of_brokers(&[0, 0, 0, 7, 0, 0, 0, 1, 0, 0]), Some(1));
        assert_eq!(count_of_brokers(&[0, 0, 0, 7, 0, 0, 0, 0]), Some(0));
        assert_eq!(count_of_brokers(&[0, 0, 0, 8, 0, 0, 0, 1]), None);
        assert_eq!(count_of_brokers(&[0, 0, 0, 7, 0, 0]), None);
    }
}
