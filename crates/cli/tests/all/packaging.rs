//! Installed packages start nodes, exactly as their files say.

use crate::harness;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use harness::{BINARY, Content, err, logberg, out, own_ip, wait_for};
use serde_json::Value;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// A clean directory tree with all that the script puts into it.
struct Tree(tempfile::TempDir);

impl Tree {
    fn install() -> Tree {
        let tree = Tree(tempfile::tempdir().expect("a place"));
        let output = tree.install_again();
        assert!(output.status.success(), "{}", err(&output));
        tree
    }

    fn install_again(&self) -> Output {
        let mut script = Command::new("sh");
        script.arg(packaging().join("install.sh"));
        script.env("DESTDIR", self.0.path()).env("BINARY", BINARY);
        script.env_remove("PREFIX");
        script.output().expect("there is a shell")
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below.trim_start_matches('/'))
    }

    fn unit(&self) -> String {
        let path = self.path("/usr/lib/systemd/system/logberg@.service");
        fs::read_to_string(path).expect("the unit is installed")
    }

    /// The unit's values of a key, with what systemd would put in the places of its specifiers.
    fn values(&self, key: &str, instance: &str) -> Vec<String> {
        let unit = self.unit();
        let lines = unit
            .lines()
            .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let etc = self.path("/etc");
        let state = self.path("/var/lib");
        let put_in = |value: &str| {
            value
                .replace("%i", instance)
                .replace("%E", etc.to_str().expect("plain"))
                .replace("%S", state.to_str().expect("plain"))
        };
        lines.map(put_in).collect()
    }

    /// ExecStart, as systemd would run it.
    fn exec_start(&self, instance: &str) -> Command {
        let lines = self.values("ExecStart", instance);
        let [line] = lines.as_slice() else {
            panic!("one ExecStart: {lines:?}")
        };
        assert!(!line.contains('%'), "a specifier that nobody knows: {line}");
        let mut words = line.split(' ');
        let program = words.next().expect("a program");
        let mut command = Command::new(self.path(program));
        command.args(words).env_clear();
        for setting in self.values("Environment", instance) {
            let (name, value) = setting.split_once('=').expect("NAME=value");
            command.env(name, value);
        }
        command
    }
}

/// A node that was started as the unit says.
struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Does what systemd does before and when it starts one.
    fn start(tree: &Tree, instance: &str) -> Service {
        for directories in tree.values("StateDirectory", instance) {
            for directory in directories.split(' ') {
                fs::create_dir_all(tree.path("/var/lib").join(directory)).expect("room");
            }
        }
        let log = tree.0.path().join(format!("{instance}.log"));
        let mut command = tree.exec_start(instance);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).expect("room"));
        let child = command.spawn().expect("what is installed runs");
        Service { child, log }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn status(servers: &str) -> Option<Value> {
    let output = logberg(servers, &["status", "--json", "--timeout", "5"]).output();
    serde_json::from_str(&out(&output.expect("the binary runs"))).ok()
}

#[test]
fn the_units_own_command_line_starts_three_nodes_and_status_finds_the_broken_one() {
    let tree = Tree::install();
    let example = fs::read_to_string(tree.path("/etc/logberg/example.toml")).expect("installed");
    let ip = own_ip();
    let addresses = [1, 2, 3].map(|node| format!("{ip}:{}", 7100 + node));
    let mut services = Vec::new();
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let listen = format!("listen = \"{}\"", addresses[index]);
        let mut settings = example.replace("listen = \"127.0.0.1:7117\"", &listen);
        settings = match index {
            0 => settings
                .replace("# bootstrap = true\n", "bootstrap = true\n")
                .replace("# voters = 3\n", "voters = 3\n"),
            _ => settings.replace("# join = [", &format!("join = [\"{}\"] # [", addresses[0])),
        };
        // A small disk is no reason to fail this.
        settings.push_str("\ndisk-reserve = 1048576\n");
        fs::write(
            tree.path("/etc/logberg").join(format!("{name}.toml")),
            settings,
        )
        .expect("room");
        services.push(Service::start(&tree, name));
        let said = || services.iter().map(Service::said).collect::<String>();
        let joined = || {
            let status = status(&addresses[index])?;
            (status["node"] == index as u64 + 1).then_some(())
        };
        wait_for(joined, said);
    }
    let servers = addresses.join(",");
    let said = |services: &[Service]| services.iter().map(Service::said).collect::<String>();
    let all_vote = || {
        let status = status(&addresses[0])?;
        let logs = status["logs"].as_array()?.clone();
        let weights = |log: &Value| log["weights"].as_array().map_or(0, Vec::len);
        (logs.len() >= 2 && logs.iter().all(|log| weights(log) == 3)).then_some(())
    };
    wait_for(all_vote, || said(&services));
    append(&servers, Content::new(1, 100_000));

    services[2].child.kill().expect("ours");
    let found = || {
        let status = status(&addresses[0])?;
        let nodes = status["nodes"].as_array()?.clone();
        let third = nodes.iter().find(|node| node["id"] == 3)?.clone();
        (third["alive"] == false).then_some(())
    };
    wait_for(found, || said(&services));
    append(&servers, Content::new(2, 100_000));

    // As `systemctl stop` does: they end by themselves, and well.
    for service in &mut services[..2] {
        let pid = service.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }
    for service in &mut services[..2] {
        let code = wait_for(
            || service.child.try_wait().expect("ours"),
            || "it does not end".into(),
        );
        assert_eq!(code.code(), Some(0), "{}", service.said());
    }
}

fn append(servers: &str, content: Content) {
    let mut command = logberg(servers, &["append", "main", "--timeout", "60"]);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, &content.bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", err(&output));
}

#[test]
fn installing_again_keeps_an_operators_settings() {
    let tree = Tree::install();
    let settings = tree.path("/etc/logberg/example.toml");
    fs::write(&settings, "# mine\n").expect("room");
    assert!(tree.install_again().status.success());
    assert_eq!(fs::read_to_string(&settings).expect("there"), "# mine\n");
}

#[test]
fn a_program_that_was_not_built_is_named() {
    let tree = tempfile::tempdir().expect("a place");
    let mut script = Command::new("sh");
    script.arg(packaging().join("install.sh"));
    script
        .env("DESTDIR", tree.path())
        .env("BINARY", tree.path().join("none"));
    let output = script.output().expect("there is a shell");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("cargo build"), "{}", err(&output));
    assert_eq!(fs::read_dir(tree.path()).expect("there").count(), 0);
}

#[test]
fn systemd_understands_the_unit() {
    let probe = Command::new("systemd-analyze").arg("--version").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("not run: there is no systemd-analyze here");
        return;
    }
    let place = tempfile::tempdir().expect("a place");
    let unit = fs::read_to_string(packaging().join("logberg@.service")).expect("there");
    // It wants the program to be there, and users of the machine.
    let unit = unit.replace("/usr/bin/logberg", BINARY);
    let path = place.path().join("logberg@a.service");
    fs::write(&path, unit).expect("room");
    let mut verify = Command::new("systemd-analyze");
    let output = verify
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&path)
        .output();
    let output = output.expect("it was there just now");
    let said = err(&output);
    let about_us: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("logberg@"))
        .collect();
    assert!(output.status.success() && about_us.is_empty(), "{said}");
}

/// A copy that somebody forgot to change would be a cluster of its own beside the one that it was to join.
#[test]
fn the_example_begins_no_cluster_by_being_copied() {
    let place = tempfile::tempdir().expect("a place");
    let data = place.path().join("data");
    let example = packaging().join("node.toml");
    let words = [
        "node",
        "--config",
        example.to_str().expect("plain"),
        "--data",
    ];
    let mut command = logberg(
        "x:1",
        &[&words[..], &[data.to_str().expect("plain")]].concat(),
    );
    command.args(["--listen", &format!("{}:7117", own_ip())]);
    let output = command.output().expect("the binary runs");
    assert!(!output.status.success());
    let said = err(&output);
    assert!(
        said.contains("--bootstrap") && said.contains("--join"),
        "{said}"
    );
    assert!(!data.join("manifest").exists(), "it made a directory");
}

#[test]
fn every_setting_of_the_example_is_one_that_a_node_knows() {
    let example = fs::read_to_string(packaging().join("node.toml")).expect("there");
    let place = tempfile::tempdir().expect("a place");
    let all: String = example
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(setting) if setting.contains(" = ") => format!("{setting}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    for text in [example.clone(), all] {
        let path = place.path().join("node.toml");
        fs::write(&path, &text).expect("room");
        let shown = path.to_str().expect("plain");
        let output = logberg("x:1", &["node", "--config", shown, "--print-config"]).output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{}\n{text}", err(&output));
    }
}

#[test]
fn the_container_file_names_what_is_there() {
    let root = packaging().join("..");
    let text = fs::read_to_string(packaging().join("Containerfile")).expect("there");
    let joined = text.replace("\\\n", " ");
    let mut stages = Vec::new();
    let mut seen = Vec::new();
    for line in joined
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (instruction, rest) = line.split_once(' ').expect("an instruction and more");
        let words: Vec<&str> = rest.split_whitespace().collect();
        match instruction {
            "FROM" => stages.push(words.get(2).copied().unwrap_or_default()),
            "COPY" => match words[0].strip_prefix("--from=") {
                Some(stage) => assert!(stages.contains(&stage), "{line}"),
                None => {
                    for source in &words[..words.len() - 1] {
                        assert!(root.join(source).exists(), "{line}");
                    }
                }
            },
            "ENTRYPOINT" | "CMD" => {
                let exec: Vec<String> = serde_json::from_str(rest).expect("exec form is JSON");
                assert!(!exec.is_empty());
            }
            "HEALTHCHECK" => {
                let (_, exec) = rest.split_once(" CMD ").expect("a command");
                serde_json::from_str::<Vec<String>>(exec).expect("exec form is JSON");
            }
            "WORKDIR" | "RUN" | "USER" | "ENV" | "VOLUME" | "EXPOSE" | "STOPSIGNAL" => {}
            other => panic!("no instruction: {other}"),
        }
        seen.push(instruction);
    }
    assert_eq!(stages.len(), 2, "built in one, run in another");
    for needed in ["USER", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"] {
        assert!(seen.contains(&needed), "{needed}");
    }
}

/// The check of a container's health, as the container's program runs it, wherever the node listens.
#[test]
fn the_containers_check_knows_a_node_that_is_there() {
    let text = fs::read_to_string(packaging().join("Containerfile")).expect("there");
    let check = text.lines().find(|line| line.starts_with("HEALTHCHECK"));
    let (_, exec) = check
        .and_then(|line| line.split_once(" CMD "))
        .expect("one");
    let exec: Vec<String> = serde_json::from_str(exec).expect("exec form is JSON");
    let mut cluster = harness::Cluster::start(1);
    let found = Path::new(BINARY)
        .parent()
        .expect("its directory")
        .to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(found).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(places).expect("directories");
    let well = |data: &Path| {
        let mut check = Command::new(&exec[0]);
        check
            .args(&exec[1..])
            .env("LOGBERG_DATA", data)
            .env("PATH", &path);
        check.output().expect("a shell").status.success()
    };
    let data = cluster.nodes[0].data.clone();
    assert!(well(&data));
    cluster.nodes[0].kill();
    assert!(!well(&data));
}

/// Whoever sets up what watches the nodes copies an address from one of these.
#[test]
fn every_document_names_the_same_admin_port() {
    let default = logberg("x:1", &["node", "--data", "d", "--admin", "--print-config"]).output();
    let default = out(&default.expect("the binary runs"));
    assert!(default.contains("admin = \"127.0.0.1:7217\""), "{default}");
    let root = packaging().join("..");
    for (file, place) in [
        ("packaging/node.toml", "# admin = \"127.0.0.1:7217\""),
        ("packaging/alerts.yaml", "\"HOST1:7217\""),
        (
            "docs/operations.md",
            "`logberg node --admin` (at 127.0.0.1:7217",
        ),
        ("docs/limits.md", "127.0.0.1:7217"),
    ] {
        let text = fs::read_to_string(root.join(file)).expect("it is there");
        assert!(text.contains(place), "{file} does not say {place}");
    }
}

/// Each link of a document of the package leads to a file of the package.
#[test]
fn installed_documents_link_to_what_is_installed() {
    let tree = Tree::install();
    let documents = tree.path("/usr/share/doc/logberg");
    let mut folders = vec![documents.clone()];
    let (mut links, mut missing) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it is there") {
            let path = entry.expect("it is there").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            for link in text.split("](").skip(1) {
                let (target, _) = link.split_once(')').unwrap_or((link, ""));
                let target = target.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains("://") || target.contains(' ') {
                    continue;
                }
                links += 1;
                if !path.with_file_name(target).exists() {
                    let shown = path.strip_prefix(&documents).unwrap_or(&path);
                    missing.push(format!("{} links to {target}", shown.display()));
                }
            }
        }
    }
    assert!(links >= 50, "{links} links");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A page for every command, and completions that a shell reads.
#[test]
fn the_manual_and_the_completions_are_installed() {
    let tree = Tree::install();
    for (page, said) in [
        ("logberg.1", "logberg"),
        ("logberg-append.1", "append"),
        ("logberg-log-create.1", "retention"),
    ] {
        let path = tree.path("/usr/share/man/man1").join(page);
        let text = fs::read_to_string(&path).expect(page);
        assert!(text.starts_with(".ie") || text.starts_with(".TH"), "{text}");
        assert!(text.contains(said), "{page}");
    }
    let bash = tree.path("/usr/share/bash-completion/completions/logberg");
    let text = fs::read_to_string(&bash).expect("bash's completions");
    assert!(text.contains("members") && text.contains("--retention"));
    let checked = Command::new("bash").arg("-n").arg(&bash).output();
    assert!(checked.is_ok_and(|checked| checked.status.success()));
    for other in [
        "zsh/site-functions/_logberg",
        "fish/vendor_completions.d/logberg.fish",
    ] {
        assert!(tree.path("/usr/share").join(other).exists(), "{other}");
    }
}
