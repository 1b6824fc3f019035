//! A browser without a window that is told what to do over two pipes (Chrome DevTools Protocol,
//! <https://chromedevtools.github.io/devtools-protocol/>), so that real keys can be pressed in it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Nothing depends on the time; this only ends a browser that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the browser says on its standard error.
const LOG: &str = "browser.log";

/// A page in a browser.
pub struct Page {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// What the browser told without being asked.
    pub events: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Page {
    /// Opens a page in a window of that size.
    pub fn open(chromium: &Path, html: &str, width: u32, height: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("page.html");
        std::fs::write(&file, html).unwrap();
        // The protocol is spoken on descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(chromium)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg("--remote-debugging-pipe")
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join(LOG)).unwrap())
            .spawn()
            .unwrap();
        let (commands, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let parts = BufReader::new(answers).split(0).map_while(Result::ok);
            parts.filter_map(|part| serde_json::from_slice(&part).ok()).try_for_each(|m| sender.send(m)).ok();
        });
        let mut page = Self { child, commands, messages, next: 0, session: None, events: Vec::new(), folder };
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        page.session = page.call("Target.attachToTarget", attach)["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        page.call("Emulation.setDeviceMetricsOverride", size);
        page.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        while !page.events.iter().any(|e| e["method"] == "Page.loadEventFired") {
            let message = page.message();
            page.events.push(message);
        }
        page
    }

    fn message(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap_or_else(|e| {
            // A browser that is gone says why only here.
            let ended = self.child.try_wait();
            let said = std::fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
            panic!("the browser does not answer ({e}); how it ended: {ended:?}; it said:\n{said}")
        })
    }

    /// Sends a command and waits for its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(command.to_string().as_bytes()).unwrap();
        self.commands.write_all(&[0]).unwrap();
        loop {
            let message = self.message();
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// The value of an expression of the page; of a promise, what it comes to.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", asked);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Presses a key and lets it go.
    pub fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Enter" => ("Enter", 13, "\r"),
            "Tab" => ("Tab", 9, ""),
            " " => ("Space", 32, " "),
            _ => ("", 0, key),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number});
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Addresses that the page asked for, beside its own file.
    pub fn requests(&self) -> Vec<String> {
        let asked = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let addresses = asked.filter_map(|e| e["params"]["request"]["url"].as_str().map(str::to_owned));
        addresses.filter(|url| !url.ends_with("/page.html") && url != "about:blank").collect()
    }

    /// Errors and whatever was written to the console.
    pub fn complaints(&self) -> Vec<String> {
        let methods = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        let told = self.events.iter().filter(|e| methods.iter().any(|m| e["method"] == *m));
        told.map(|e| e["params"].to_string()).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
