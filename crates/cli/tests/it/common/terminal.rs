//! A pseudo-terminal with a program at it, and somebody who types.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A program at a terminal.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Starts a program in a session of its own, with this as its controlling terminal.
    pub(crate) fn start(program: &Command) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let open = || File::options().read(true).write(true).open(&name).unwrap();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm").stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        let child = command.spawn().unwrap();
        let keyboard = File::from(keyboard);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut seen, kept) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The last program that leaves ends the reading with an error.
            while let Ok(count) = seen.read(&mut buffer) {
                if count == 0 {
                    break;
                }
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { keyboard, screen, child }
    }

    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until a text was shown so many times.
    pub(crate) fn wait_for(&self, text: &str, times: usize) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while self.screen().matches(text).count() < times {
            assert!(Instant::now() < deadline, "`{text}` was not shown: {}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the program; returns its code and everything that was shown.
    pub(crate) fn end(mut self) -> (i32, String) {
        let deadline = Instant::now() + Duration::from_mins(1);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        };
        (status.code().unwrap_or(-1), self.screen())
    }
}
