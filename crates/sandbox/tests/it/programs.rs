//! Programs that agents use, in a sandbox with everything refused that is refused: what they need must still work.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use crate::common::{command, create, exec, sh};
use sandbox::Outcome;

/// The embedded engine's image is the host's own: the lane installs what is missing there. A container's is the lane's Debian.
async fn needs(sandbox: &sandbox::Sandbox, program: &str) {
    let found = sh(sandbox, &format!("command -v {program} || true")).await;
    assert!(!found.is_empty(), "the image has no {program}: `./test.sh sandbox` installs it in the host's /usr/bin");
}

/// Runs a Python program; it must print `ok` last.
async fn python(program: &str) {
    let sandbox = create().await;
    needs(&sandbox, "python3").await;
    let completed = exec(&sandbox, command(&["python3", "-c", program])).await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&completed.stdout), String::from_utf8_lossy(&completed.stderr));
    assert_eq!((completed.outcome, out.trim()), (Outcome::Exited(0), "ok"), "{err}");
}

#[tokio::test]
async fn python_multiprocessing() {
    python(
        "import multiprocessing as m, multiprocessing.shared_memory as s\n\
         def f(x): return x * x\n\
         if __name__ == '__main__':\n\
         \x20   m.set_start_method('fork')\n\
         \x20   with m.Pool(3) as pool: assert pool.map(f, range(10)) == [x * x for x in range(10)]\n\
         \x20   q = m.Queue(); p = m.Process(target=q.put, args=(7,)); p.start(); assert q.get() == 7; p.join()\n\
         \x20   block = s.SharedMemory(create=True, size=100); block.buf[0] = 5; block.close(); block.unlink()\n\
         \x20   with m.Lock(): print('ok')\n",
    )
    .await;
}

#[tokio::test]
async fn python_asyncio_with_a_server_and_a_child() {
    python(
        "import asyncio\n\
         async def main():\n\
         \x20   async def serve(r, w):\n\
         \x20       w.write(await r.readline()); await w.drain(); w.close()\n\
         \x20   server = await asyncio.start_server(serve, '127.0.0.1', 0)\n\
         \x20   r, w = await asyncio.open_connection(*server.sockets[0].getsockname())\n\
         \x20   w.write(b'line\\n'); assert await r.readline() == b'line\\n'\n\
         \x20   child = await asyncio.create_subprocess_exec('echo', 'said', stdout=asyncio.subprocess.PIPE)\n\
         \x20   assert (await child.communicate())[0] == b'said\\n'\n\
         asyncio.run(main()); print('ok')\n",
    )
    .await;
}

#[tokio::test]
async fn python_ssl_over_a_socket_pair() {
    python(
        "import socket, ssl\n\
         a, b = socket.socketpair()\n\
         context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE\n\
         tls = context.wrap_socket(a, do_handshake_on_connect=False); tls.setblocking(False)\n\
         try: tls.do_handshake()\n\
         except ssl.SSLWantReadError: pass\n\
         assert b.recv(5)[0] == 22, 'a handshake record'\n\
         assert ssl.RAND_bytes(16); print('ok')\n",
    )
    .await;
}

#[tokio::test]
async fn apt_reads_a_repository() {
    let sandbox = create().await;
    needs(&sandbox, "apt-get").await;
    let script = "set -e; mkdir -p /srv/repo /srv/apt/lists/partial /srv/apt/cache/archives/partial /srv/apt/etc; \
        : > /srv/repo/Packages; : > /srv/apt/status; \
        echo 'deb [trusted=yes] copy:/srv/repo ./' > /srv/apt/sources.list; \
        apt-get -o Dir::Etc::sourcelist=/srv/apt/sources.list -o Dir::Etc::sourceparts=/srv/apt/etc \
            -o Dir::State::lists=/srv/apt/lists -o Dir::State::status=/srv/apt/status -o Dir::Cache=/srv/apt/cache \
            -o APT::Sandbox::User=root update 2>&1";
    let said = sh(&sandbox, script).await;
    assert!(said.contains("Reading package lists") && !said.contains("E:"), "{said}");
}

#[tokio::test]
async fn git_commits_and_clones() {
    let sandbox = create().await;
    needs(&sandbox, "git").await;
    let script = "set -e; cd /srv; git -c init.defaultBranch=main init -q one; cd one; echo text > file; git add file; \
        git -c user.name=a -c user.email=a@b.c commit -qm first; cd ..; git clone -q one two; cat two/file";
    assert_eq!(sh(&sandbox, script).await, "text");
}

#[tokio::test]
async fn node_reads_writes_and_watches() {
    let sandbox = create().await;
    needs(&sandbox, "node").await;
    let program = "const fs = require('fs'), w = fs.watch('/srv', () => { w.close(); console.log('ok') }); \
        setTimeout(() => fs.promises.writeFile('/srv/f', 'x'), 100)";
    let completed = exec(&sandbox, command(&["node", "-e", program])).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&completed.stdout).trim(),
        "ok",
        "{}",
        String::from_utf8_lossy(&completed.stderr)
    );
}

#[tokio::test]
async fn a_database_with_its_journal_and_locks() {
    python(
        "import sqlite3\n\
         c = sqlite3.connect('/srv/d.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t(x)')\n\
         c.execute('insert into t values(1)'); c.commit(); assert c.execute('select x from t').fetchone() == (1,)\n\
         print('ok')\n",
    )
    .await;
}
