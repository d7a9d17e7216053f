//! Clients made from docs/openapi.json by the generators that people use, and compiled: a document that a generator does not
//! take, or makes something of that does not compile, fails here.
//!
//! The generators have fixed versions and live in `target/clients`, installed once. What they are written in (Go, a JDK with
//! Maven, Python, Node.js) must be on the machine: without it this fails, and says what to install.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::root;
use super::tools::{copy_dependencies, in_path, remove, run, write};

/// Names the versions of what Java needs.
const POM: &str = include_str!("java.pom.xml");
const JAVA_GENERATOR: &str = "openapi-generator-cli-7.14.0.jar";
const GO_GENERATOR: &str = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2";
const GO_MODULE: &str = "module holdfast\n\ngo 1.24\n\nrequire github.com/oapi-codegen/runtime v1.8.0\n";
const PYTHON_GENERATOR: &str = "openapi-python-client==0.29.1";
const TYPESCRIPT_GENERATOR: [&str; 2] = ["openapi-typescript@7.13.0", "typescript@5.9.3"];
/// A program that names a path and a shape, so that more than the declarations is checked.
const TYPESCRIPT_USE: &str = "import type { components, paths } from \"./holdfast\";
export type Select = components[\"schemas\"][\"TokenSelect\"];
export type Selected = paths[\"/tokens/select\"][\"post\"][\"responses\"][200];
export const select: Select = { spender: \"p\", currency: \"EUR\", amount: \"1\" };
";
const PYTHON_USE: &str = "import importlib, pkgutil, holdfast_client
for module in pkgutil.walk_packages(holdfast_client.__path__, 'holdfast_client.'):
    importlib.import_module(module.name)
";

/// One language and its generator.
struct Language {
    name: &'static str,
    /// Programs that must be there, and Debian's packages that have them.
    needs: &'static [(&'static str, &'static str)],
    /// What is installed; another one makes it anew.
    version: String,
    install: fn(&Path) -> Result<(), String>,
    /// Makes a client of the document in an empty folder and compiles it.
    check: fn(tools: &Path, document: &Path, out: &Path) -> Result<(), String>,
}

fn languages() -> [Language; 4] {
    [
        Language {
            name: "go",
            needs: &[("go", "golang-go")],
            version: GO_GENERATOR.to_owned() + GO_MODULE,
            install: |tools| run(Command::new("go").args(["install", GO_GENERATOR]).env("GOBIN", tools)),
            check: go,
        },
        Language {
            name: "java",
            needs: &[("java", "default-jre-headless"), ("javac", "default-jdk-headless"), ("mvn", "maven")],
            version: POM.to_owned(),
            install: |tools| {
                let pom = tools.join("pom.xml");
                write(&pom, POM)?;
                copy_dependencies(&pom, &tools.join("lib"), &[])
            },
            check: java,
        },
        Language {
            name: "python",
            needs: &[("python3", "python3-venv")],
            version: PYTHON_GENERATOR.to_owned(),
            install: |tools| {
                run(Command::new("python3").args(["-m", "venv"]).arg(tools))?;
                run(Command::new(tools.join("bin/pip")).args(["install", "--quiet", PYTHON_GENERATOR]))
            },
            check: python,
        },
        Language {
            name: "typescript",
            needs: &[("node", "nodejs"), ("npm", "npm")],
            version: TYPESCRIPT_GENERATOR.concat(),
            install: |tools| {
                let mut npm = Command::new("npm");
                npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(tools);
                run(npm.args(TYPESCRIPT_GENERATOR))
            },
            check: typescript,
        },
    ]
}

/// Every generator takes the document, and what it makes compiles.
pub(crate) fn check() -> Result<(), String> {
    let root = root()?;
    let home = root.join("target").join("clients");
    let document = root.join("docs").join("openapi.json");
    for language in languages() {
        let started = Instant::now();
        let tools = installed(&language, &home)?;
        let out = home.join(format!("{}.out", language.name));
        empty(&out)?;
        (language.check)(&tools, &document, &out).map_err(|reason| {
            format!("{reason}\nxtask: docs/openapi.json is no good for {}", language.name)
        })?;
        eprintln!("xtask: a client in {} took {} s", language.name, started.elapsed().as_secs());
    }
    Ok(())
}

/// The folder of a generator of the version that is wanted. Complete or not there.
fn installed(language: &Language, home: &Path) -> Result<PathBuf, String> {
    for (program, package) in language.needs {
        if in_path(program).is_none() {
            return Err(format!(
                "xtask: {program} is not on this machine, and clients in {} are not checked without it: install Debian's \
                 package {package} (apt-get install {package})",
                language.name
            ));
        }
    }
    let (tools, stamp) = (home.join(language.name), home.join(format!("{}.version", language.name)));
    if fs::read_to_string(&stamp).is_ok_and(|version| version == language.version) {
        return Ok(tools);
    }
    eprintln!("xtask: installing the generator of clients in {}", language.name);
    empty(&tools)?;
    (language.install)(&tools)?;
    write(&stamp, &language.version)?;
    Ok(tools)
}

fn go(tools: &Path, document: &Path, out: &Path) -> Result<(), String> {
    let mut generator = Command::new(tools.join("oapi-codegen"));
    generator.args(["-generate", "types,client", "-package", "holdfast", "-o"]);
    run(generator.arg(out.join("holdfast.go")).arg(document))?;
    write(&out.join("go.mod"), GO_MODULE)?;
    run(Command::new("go").args(["mod", "tidy"]).current_dir(out))?;
    run(Command::new("go").args(["build", "./..."]).current_dir(out))
}

fn java(tools: &Path, document: &Path, out: &Path) -> Result<(), String> {
    let jars = format!("{}/*", tools.join("lib").display());
    let mut generator = Command::new("java");
    // Alone: it has libraries inside that the client has in other versions.
    generator.args(["-Xmx512m", "-XX:+UseSerialGC", "-Dlog.level=warn", "-jar"]);
    generator.arg(tools.join("lib").join(JAVA_GENERATOR)).args(["generate", "-g", "java", "-i"]);
    run(generator.arg(document).arg("-o").arg(out))?;
    let mut sources = Vec::new();
    files(&out.join("src/main/java"), "java", &mut sources)?;
    let mut compiler = Command::new("javac");
    compiler.args(["-J-XX:+UseSerialGC", "-proc:none", "-nowarn", "-Xlint:none", "-cp", &jars, "-d"]);
    run(compiler.arg(out.join("classes")).args(sources))
}

fn python(tools: &Path, document: &Path, out: &Path) -> Result<(), String> {
    let package = out.join("package");
    // The generator formats what it makes, with a program that lies beside it.
    let path = format!("{}:{}", tools.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut generator = Command::new(tools.join("bin/openapi-python-client"));
    generator.args(["generate", "--path"]).arg(document).arg("--output-path").arg(&package);
    run(generator.env("PATH", path))?;
    run(Command::new(tools.join("bin/python")).args(["-c", PYTHON_USE]).current_dir(&package))
}

fn typescript(tools: &Path, document: &Path, out: &Path) -> Result<(), String> {
    let bin = tools.join("node_modules/.bin");
    let declarations = out.join("holdfast.d.ts");
    run(Command::new(bin.join("openapi-typescript")).arg(document).arg("-o").arg(&declarations))?;
    write(&out.join("use.ts"), TYPESCRIPT_USE)?;
    let mut compiler = Command::new(bin.join("tsc"));
    run(compiler.args(["--noEmit", "--strict"]).arg(out.join("use.ts")).arg(declarations))
}

/// All files of a folder that end so.
fn files(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("xtask: cannot read {}: {error}", dir.display());
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            files(&path, ending, found)?;
        } else if path.extension().is_some_and(|known| known == ending) {
            found.push(path);
        }
    }
    Ok(())
}

fn empty(dir: &Path) -> Result<(), String> {
    remove(dir)?;
    fs::create_dir_all(dir).map_err(|error| format!("xtask: cannot make {}: {error}", dir.display()))
}
