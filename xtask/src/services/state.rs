//! What is remembered between two calls: `target/services/state.json`. Tests may read it; only xtask writes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{ALL, Service};
use crate::tools::{rename, write};

/// Where the services live and how they can be reached.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ServicesState {
    /// The folder with one folder per service.
    pub(super) home: Option<PathBuf>,
    pub(super) services: BTreeMap<&'static str, Remembered>,
}

/// One service.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remembered {
    /// None: it was stopped. Otherwise it may still have died since.
    pub(super) pid: Option<u32>,
    /// In the order of `Service::port_names`.
    pub(super) ports: Vec<u16>,
    pub(super) data: PathBuf,
}

impl ServicesState {
    /// A file that is not there or cannot be understood means that nothing is remembered.
    pub(super) fn read(path: &Path) -> ServicesState {
        let Some(value) = fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        else {
            return ServicesState::default();
        };
        let known = ALL.into_iter().filter_map(|service| {
            Some((service.name, Remembered::from_json(value.get(service.name)?, service)?))
        });
        ServicesState {
            home: value.get("home").and_then(Value::as_str).map(PathBuf::from),
            services: known.collect(),
        }
    }

    /// Replaces the file in one step, so that a reader sees the old or the new one.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        let mut value = Map::new();
        value.insert("home".to_owned(), json!(self.home));
        for service in ALL {
            if let Some(remembered) = self.services.get(service.name) {
                value.insert(service.name.to_owned(), remembered.to_json(service));
            }
        }
        let text = format!("{:#}\n", Value::Object(value));
        let new = path.with_extension("json.new");
        write(&new, &text)?;
        rename(&new, path)
    }
}

impl Remembered {
    fn from_json(value: &Value, service: &Service) -> Option<Remembered> {
        let port = |name: &&str| value.get(*name)?.as_u64()?.try_into().ok();
        Some(Remembered {
            pid: value.get("pid").and_then(Value::as_u64).and_then(|pid| pid.try_into().ok()),
            ports: service.port_names.iter().map(port).collect::<Option<_>>()?,
            data: value.get("data")?.as_str()?.into(),
        })
    }

    fn to_json(&self, service: &Service) -> Value {
        let mut value = Map::new();
        value.insert("pid".to_owned(), json!(self.pid));
        for (name, port) in service.port_names.iter().zip(&self.ports) {
            value.insert((*name).to_owned(), json!(port));
        }
        value.insert("data".to_owned(), json!(self.data));
        let (name, address) = (service.address)(self.ports[0]);
        value.insert(name.to_owned(), json!(address));
        Value::Object(value)
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::{ALL, Remembered, ServicesState};

    #[test]
    fn what_is_written_is_read_again_and_rubbish_is_nothing() {
        let path = env::temp_dir().join(format!("holdfast-state-{}.json", process::id()));
        let mut state = ServicesState { home: Some("/with \"quotes\"".into()), ..ServicesState::default() };
        for (service, pid) in ALL.iter().zip([Some(7), None]) {
            let ports = (1..).take(service.port_names.len()).collect();
            state.services.insert(service.name, Remembered { pid, ports, data: "/data".into() });
        }
        state.write(&path).unwrap();
        assert_eq!(ServicesState::read(&path), state);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"url\": \"postgres://holdfast@127.0.0.1:1/holdfast\""), "{text}");
        assert!(
            text.contains("\"bootstrap\": \"127.0.0.1:1\"") && text.contains("\"controllerPort\": 2"),
            "{text}"
        );
        fs::write(&path, "{\"kafka\":").unwrap();
        assert_eq!(ServicesState::read(&path), ServicesState::default());
        fs::remove_file(&path).unwrap();
    }
}
