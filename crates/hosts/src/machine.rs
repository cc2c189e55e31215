//! A running QEMU virtual machine, controlled by ssh.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::image::{Image, Suite};
use crate::{Error, run};

/// Time from the start to an answer by ssh. Without hardware virtualisation, 30 to 60 seconds are usual.
const BOOT: Duration = Duration::from_mins(6);

/// The result of a command.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; 255 is ssh's own.
    pub code: i32,
    /// Both of its streams.
    pub text: String,
}

/// A machine that runs until this is dropped; what it writes is gone then.
#[derive(Debug)]
pub struct Machine {
    qemu: Child,
    suite: Suite,
    port: u16,
    key: PathBuf,
}

impl Machine {
    /// Boots a copy of an image. `settings` are added to the kernel's command line.
    pub fn boot(image: &Image, settings: &str) -> Result<Self, Error> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let console = image.disk.with_extension("console");
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-M", "pc", "-accel", "tcg,thread=multi", "-cpu", image.suite.processor(), "-smp", "2", "-m", "3G"]);
        qemu.args(["-nographic", "-nodefaults", "-no-user-config", "-snapshot", "-device", "virtio-rng-pci"]);
        qemu.arg("-serial").arg(format!("file:{}", console.display()));
        qemu.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        qemu.arg("-append").arg(format!("root=/dev/vda rw console=ttyS0 quiet mitigations=off {settings}"));
        qemu.arg("-drive").arg(format!("file={},format=raw,if=virtio,cache=unsafe", image.disk.display()));
        qemu.arg("-netdev").arg(format!("user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"));
        qemu.args(["-device", "virtio-net-pci,netdev=n"]);
        let qemu = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let machine = Self { qemu, suite: image.suite, port, key: image.key.clone() };
        let deadline = Instant::now() + BOOT;
        while machine.run("root", "true")?.code != 0 {
            if Instant::now() > deadline {
                return Err(Error::Silent(image.suite.name(), console));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(machine)
    }

    /// The release of its image.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    fn ssh(&self, program: &str, port: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-q").arg("-i").arg(&self.key).arg(port).arg(self.port.to_string());
        for option in ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=60", "BatchMode=yes"]
        {
            command.args(["-o", option]);
        }
        command
    }

    /// Runs a line of shell as a user with a session of its own.
    pub fn run(&self, user: &str, line: &str) -> Result<Output, Error> {
        let mut command = self.ssh("ssh", "-p");
        command.arg(format!("{user}@127.0.0.1")).arg(line).stdin(Stdio::null());
        let output = command.output()?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Ok(Output { code: output.status.code().unwrap_or(255), text })
    }

    /// Copies a file or a directory into it, as root.
    pub fn put(&self, from: &Path, to: &str) -> Result<(), Error> {
        let mut command = self.ssh("scp", "-P");
        command.arg("-r").arg(from).arg(format!("root@127.0.0.1:{to}"));
        run("copying into the machine", &mut command).map(drop)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
