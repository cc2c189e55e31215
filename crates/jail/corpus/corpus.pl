#!/usr/bin/perl
# Programs that need the entries of the system-call filter: `perl corpus.pl PROGRAM`, with NUMBERS="open=2 ..." set.
# Each does a small job by the calls themselves, checks what came of it, and dies at the first one that fails.
use strict;
use warnings;
use Errno;

my %number = map { split /=/ } split / /, $ENV{NUMBERS} // '';
my $EPERM = 1;

# A call that must succeed; returns its result. Buffers are the caller's own, so arguments are never copied.
sub call {
    my $result = &attempt;
    die "$_[0]: $!\n" if $result == -1;
    return $result;
}

# A call that this kernel or processor may lack, or refuse for its own reasons, but not for lack of permission.
sub ask {
    my $result = &attempt;
    die "$_[0]: $!\n" if $result == -1 && $! == $EPERM;
    return $result;
}

sub attempt {
    my $number = $number{$_[0]} // die "$_[0] has no number\n";
    # Perl refuses to pass a constant by address; a copy takes its place.
    for my $index (1 .. $#_) {
        splice @_, $index, 1, my $copy = $_[$index] if Internals::SvREADONLY($_[$index]);
    }
    return syscall($number, @_[1 .. $#_]);
}

sub check { my ($what, $true) = @_; die "$what is not so\n" unless $true }
sub space { return "\0" x $_[0] }
sub address { return unpack 'Q', pack 'p', $_[0] }

# Runs a part in a process of its own; it must end well.
sub apart {
    my ($part) = @_;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) { eval { $part->(); 1 } or do { print STDERR $@; exit 1 }; exit 0 }
    waitpid $pid, 0;
    die "a part failed\n" if $?;
}

my $AT_FDCWD = -100;
my ($O_WRONLY, $O_RDWR, $O_CREAT, $O_DIRECTORY) = (1, 2, 0100, 0200000);
my $dir = $ENV{WORK} // die "WORK is not set\n";
chdir $dir or die "$dir: $!\n";

sub file { my ($name, $text) = @_; open my $out, '>', $name or die "$name: $!\n"; print $out $text; close $out; return "$name\0" }
sub content { my ($name) = @_; open my $in, '<', $name or die "$name: $!\n"; local $/; return scalar <$in> }
sub handle { my ($name, $how) = @_; open my $in, $how // '+<', $name or die "$name: $!\n"; return $in }

my %program = (

# Programs linked long ago use the first forms of many calls.
'old-editor' => sub {
    my $fd = call(creat => "text\0", 0644);
    call(write => $fd, "one\ntwo\n", 8);
    call(close => $fd);
    $fd = call(open => "text\0", 0, 0);
    my $text = space(8);
    check 'what was read', call(read => $fd, $text, 8) == 8 && $text eq "one\ntwo\n";
    check 'the place', call(lseek => $fd, 4, 0) == 4;
    call(access => "text\0", 4);
    call($_ => "text\0", space(256)) for 'stat', 'lstat';
    call(fstat => $fd, space(256));
    call(link => "text\0", "copy\0");
    call(rename => "copy\0", "other\0");
    call(symlink => "other\0", "link\0");
    my $target = space(64);
    check 'the link', call(readlink => "link\0", $target, 64) == 5;
    call(unlink => "link\0");
    call(chmod => "text\0", 0600);
    call($_ => "text\0", $< + 0, $( + 0) for 'chown', 'lchown';
    call(utime => "text\0", 0);
    call(utimes => "text\0", 0);
    call(futimesat => $AT_FDCWD, "text\0", 0);
    call(truncate => "text\0", 3);
    check 'the content', content('text') eq 'one';
    call(mkdir => "folder\0", 0755);
    my $folder = call(open => ".\0", $O_DIRECTORY, 0);
    check 'the entries', call(getdents => $folder, space(4096), 4096) > 0;
    call(rmdir => "folder\0");
    call(mknod => "fifo\0", 0010644, 0);
    check 'the fifo', -p 'fifo';
},

'shell' => sub {
    # Debian's sh starts commands by vfork, and every C program begins with these.
    system('sh', '-c', 'cd / && umask 022 && /bin/true && (cat /dev/null | cat) && :') == 0 or die "sh: $?\n";
    my $ends = space(8);
    call(pipe => $ends);
    my ($reader, $writer) = unpack 'll', $ends;
    call(dup2 => $writer, 50);
    check 'a copy', call(dup => $writer) > 2;
    call(dup3 => $writer, 51, 0);
    call(pipe2 => $ends, 0);
    call(fcntl => $reader, 3, 0);
    call(umask => 022);
    my $here = space(4096);
    call(getcwd => $here, 4096);
    call(chdir => "/\0");
    my $root = call(openat => $AT_FDCWD, "/\0", 0);
    call(fchdir => $root);
    call(fstat => $root, space(256));
    call(newfstatat => $AT_FDCWD, "/\0", space(256), 0);
    check 'the entries', call(getdents64 => $root, space(4096), 4096) > 0;
    call(faccessat => $AT_FDCWD, "/\0", 0);
    call(faccessat2 => $AT_FDCWD, "/\0", 0, 0);
    call(close_range => 60, 70, 0);
},

'tar' => sub {
    file('f', 'data');
    call(mkdirat => $AT_FDCWD, "d\0", 0755);
    call(mknodat => $AT_FDCWD, "p\0", 0010644, 0);
    call(fchownat => $AT_FDCWD, "f\0", $< + 0, $( + 0, 0);
    call(fchmodat => $AT_FDCWD, "f\0", 0640);
    ask(fchmodat2 => $AT_FDCWD, "f\0", 0640, 0);
    call(linkat => $AT_FDCWD, "f\0", $AT_FDCWD, "hard\0", 0);
    call(symlinkat => "f\0", $AT_FDCWD, "soft\0");
    check 'the link', call(readlinkat => $AT_FDCWD, "soft\0", space(9), 9) == 1;
    call(utimensat => $AT_FDCWD, "f\0", 0, 0);
    call(renameat => $AT_FDCWD, "hard\0", $AT_FDCWD, "h2\0");
    call(renameat2 => $AT_FDCWD, "h2\0", $AT_FDCWD, "h3\0", 0);
    call(unlinkat => $AT_FDCWD, "h3\0", 0);
    call(statx => $AT_FDCWD, "f\0", 0, 0x7ff, space(256));
    my $how = pack 'QQQ', 0, 0, 0;
    check 'a file', call(openat2 => $AT_FDCWD, "f\0", $how, 24) > 2;
    my $f = handle('f');
    call(fchmod => fileno $f, 0600);
    call(fchown => fileno $f, $< + 0, $( + 0);
},

'database' => sub {
    file('table', 'x' x 8192);
    my $f = handle('table');
    my $fd = fileno $f;
    my $part = space(4);
    check 'a page', call(pwrite64 => $fd, "page", 4, 4096) == 4;
    check 'a page', call(pread64 => $fd, $part, 4, 4096) == 4 && $part eq 'page';
    my $vector = pack 'QQ', address($part), 4;
    call($_ => $fd, $vector, 1) for 'writev', 'readv';
    call($_ => $fd, $vector, 1, 0, 0) for 'pwritev', 'preadv';
    call($_ => $fd, $vector, 1, 0, 0, 0) for 'pwritev2', 'preadv2';
    call(flock => $fd, 2);
    call($_ => $fd) for 'fsync', 'fdatasync', 'syncfs';
    call(ftruncate => $fd, 100);
    call(fallocate => $fd, 0, 0, 8192);
    call(sync_file_range => $fd, 0, 0, 0);
    call(fadvise64 => $fd, 0, 0, 0);
    call(readahead => $fd, 0, 4096);
    call(statfs => ".\0", space(256));
    call(fstatfs => $fd, space(256));
    ask(cachestat => $fd, pack('QQ', 0, 0), space(64), 0);
    file('out', '');
    my $o = handle('out');
    check 'a copy', call(copy_file_range => $fd, pack('Q', 0), fileno $o, 0, 100, 0) == 100;
    check 'a copy', call(sendfile => fileno $o, $fd, pack('Q', 0), 100) == 100;
},

'attributes' => sub {
    my $name = file('f', '');
    my $f = handle('f');
    my ($key, $fd) = ("user.a\0", fileno $f);
    call($_ => $name, $key, "v", 1, 0) for 'setxattr', 'lsetxattr';
    call(fsetxattr => $fd, $key, "v", 1, 0);
    check 'its size', call($_ => $name, $key, space(9), 9) == 1 for 'getxattr', 'lgetxattr';
    call(fgetxattr => $fd, $key, space(9), 9);
    call($_ => $name, space(99), 99) for 'listxattr', 'llistxattr';
    call(flistxattr => $fd, space(99), 99);
    for my $remove ('removexattr', 'lremovexattr') { call($remove => $name, $key); call(setxattr => $name, $key, "v", 1, 0) }
    call(fremovexattr => $fd, $key);
},

'watcher' => sub {
    for my $fd (call('inotify_init'), call(inotify_init1 => 0)) {
        my $watch = call(inotify_add_watch => $fd, ".\0", 0x100);
        call(inotify_rm_watch => $fd, $watch);
    }
},

'plumbing' => sub {
    pipe my $r, my $w;
    pipe my $r2, my $w2;
    my $text = 'through';
    check 'pages', call(vmsplice => fileno $w, pack('QQ', address($text), 7), 1, 0) == 7;
    check 'a copy', call(tee => fileno $r, fileno $w2, 7, 0) == 7;
    check 'a move', call(splice => fileno $r, 0, fileno $w2, 0, 7, 0) == 7;
    my $set = space(128);
    vec($set, fileno $r2, 1) = 1;
    call(select => 20, $set, 0, 0, pack('qq', 1, 0));
    vec($set, fileno $r2, 1) = 1;
    call(pselect6 => 20, $set, 0, 0, pack('qq', 1, 0), 0);
    my $poll = pack 'lss', fileno $r2, 1, 0;
    check 'ready', call(poll => $poll, 1, 1000) == 1;
    check 'ready', call(ppoll => $poll, 1, pack('qq', 1, 0), 0, 8) == 1;
},

'allocator' => sub {
    # MAP_PRIVATE | MAP_ANONYMOUS, read and write.
    my $at = call(mmap => 0, 8192, 3, 0x22, -1, 0);
    call(mprotect => $at, 4096, 1);
    call(madvise => $at, 8192, 8);
    call(mincore => $at, 8192, space(8));
    call(msync => $at, 8192, 4);
    call(mlock => $at, 4096);
    call(munlock => $at, 4096);
    ask(mlock2 => $at, 4096, 1);
    ask(mlockall => 5);
    call('munlockall');
    ask(mseal => $at + 4096, 0, 0);
    $at = call(mremap => $at, 4096, 4096, 0);
    my $self = call(pidfd_open => $$ + 0, 0);
    ask(process_madvise => $self, pack('QQ', $at, 4096), 1, 20, 0);
    call(munmap => $at, 4096);
    check 'the end of the heap', call(brk => 0) > 0;
    my $memory = call(memfd_create => "m\0", 0);
    check 'memory', $memory > 2;
    ask(set_mempolicy => 0, 0, 0);
    ask(get_mempolicy => 0, 0, 0, 0, 0);
    ask(mbind => 0, 0, 0, 0, 0, 0);
    my $key = ask(pkey_alloc => 0, 0);
    ask(pkey_mprotect => 0, 0, 0, $key);
    ask(pkey_free => $key);
},

'system-v' => sub {
    my $shared = call(shmget => 0, 4096, 01600);
    my $at = call(shmat => $shared, 0, 0);
    call(shmdt => $at);
    call(shmctl => $shared, 0, 0);
    my $semaphore = call(semget => 0, 1, 01600);
    call(semop => $semaphore, pack('Sss', 0, 1, 0), 1);
    call(semtimedop => $semaphore, pack('Sss', 0, -1, 0), 1, pack('qq', 1, 0));
    call(semctl => $semaphore, 0, 0, 0);
    my $queue = call(msgget => 0, 01600);
    call(msgsnd => $queue, pack('qa4', 1, 'text'), 4, 0);
    check 'a message', call(msgrcv => $queue, space(16), 4, 0, 0) == 4;
    call(msgctl => $queue, 0, 0);
},

'signals' => sub {
    my $seen = 0;
    local $SIG{USR1} = sub { $seen++ };
    call(kill => $$ + 0, 10);
    call(tkill => $$ + 0, 10);
    call(tgkill => $$ + 0, $$ + 0, 10);
    check 'three signals', $seen >= 1;
    my $usr2 = pack 'Q', 1 << 11;
    call(rt_sigprocmask => 0, $usr2, 0, 8);
    # Queued by ourselves: number, error, code below zero.
    my $info = pack('lll', 12, 0, -1) . space(116);
    call(rt_sigqueueinfo => $$ + 0, 12, $info);
    call(rt_sigpending => space(8), 8);
    check 'the signal', call(rt_sigtimedwait => $usr2, 0, pack('qq', 1, 0), 8) == 12;
    call(rt_tgsigqueueinfo => $$ + 0, $$ + 0, 12, $info);
    check 'the signal', call(rt_sigtimedwait => $usr2, 0, 0, 8) == 12;
    call(rt_sigaction => 12, 0, space(64), 8);
    call(sigaltstack => 0, space(64));
    check 'a descriptor', call(signalfd => -1, $usr2, 8) > 2;
    check 'a descriptor', call(signalfd4 => -1, $usr2, 8, 0) > 2;
    local $SIG{ALRM} = sub { };
    call(alarm => 1);
    check 'an interruption', attempt('pause') == -1 && $!{EINTR};
    call(setitimer => 0, pack('q4', 0, 0, 0, 50_000), 0);
    check 'an interruption', attempt(rt_sigsuspend => space(8), 8) == -1 && $!{EINTR};
    call(getitimer => 0, space(32));
},

'stopped-sleeper' => sub {
    # A sleep that is stopped and continued goes on by restart_syscall.
    my $sleep = fork // die;
    if (!$sleep) { my $left = pack 'qq', 0, 300_000_000; exit(attempt(nanosleep => $left, 0) == 0 ? 0 : 1) }
    select undef, undef, undef, 0.1;
    kill STOP => $sleep;
    select undef, undef, undef, 0.05;
    kill CONT => $sleep;
    waitpid $sleep, 0;
    check 'the sleep', $? == 0;
},

'clock' => sub {
    check 'the time', call(time => 0) > 1_000_000_000;
    call(gettimeofday => space(16), 0);
    call(clock_gettime => 0, space(16));
    call(clock_getres => 0, space(16));
    call(nanosleep => pack('qq', 0, 1000), 0);
    call(clock_nanosleep => 0, 0, pack('qq', 0, 1000), 0);
    my $id = space(8);
    call(timer_create => 0, pack('QllQ6', 0, 0, 1, (0) x 6), $id);
    my $timer = unpack 'l', $id;
    call(timer_settime => $timer, 0, pack('q4', 0, 0, 100, 0), 0);
    call(timer_gettime => $timer, space(32));
    call(timer_getoverrun => $timer);
    call(timer_delete => $timer);
    my $fd = call(timerfd_create => 1, 0);
    call(timerfd_settime => $fd, 0, pack('q4', 0, 0, 0, 1000), 0);
    call(timerfd_gettime => $fd, space(32));
    call(times => space(32));
},

'processes' => sub {
    my $child = call('fork');
    if (!$child) { attempt(exit => 7) ; attempt(exit_group => 1) }
    my $told = space(128);
    call(waitid => 1, $child, $told, 4, 0);
    check 'how it ended', unpack('x24 l', $told) == 7;
    check 'how it ended', do { $child = fork // die; exit 3 unless $child; my $how = space(4);
        call(wait4 => $child, $how, 0, 0) == $child && unpack('l', $how) == 3 << 8 };
    apart(sub { attempt(execveat => $AT_FDCWD, "/bin/true\0", pack('pQ', "true\0", 0), pack('Q', 0), 0); die "execveat: $!\n" });
    apart(sub { attempt(execve => "/bin/true\0", pack('pQ', "true\0", 0), pack('Q', 0)); die "execve: $!\n" });
    apart(sub { attempt(exit_group => 0); die "exit_group: $!\n" });
    apart(sub { call('setsid'); call(getsid => 0) });
    apart(sub { call(setpgid => 0, 0); call(getpgid => 0); call('getpgrp') });
    call($_) for 'getpid', 'getppid', 'gettid', 'sched_yield';
    call(uname => space(512));
    call(sysinfo => space(256));
    call(getrusage => 0, space(256));
    call(getrlimit => 7, my $limit = space(16));
    call(setrlimit => 7, $limit);
    call(prlimit64 => 0, 7, 0, $limit);
    call(prctl => 16, space(16));
    call(getcpu => space(8), space(8), 0);
    check 'randomness', call(getrandom => space(8), 8, 0) == 8;
    my $self = call(pidfd_open => $$ + 0, 0);
    call(pidfd_send_signal => $self, 0, 0, 0);
    ask(pidfd_getfd => $self, 0, 0);
},

'ids' => sub {
    call($_) for 'getuid', 'getgid', 'geteuid', 'getegid';
    call(getgroups => 0, 0);
    call($_ => space(8), space(8), space(8)) for 'getresuid', 'getresgid';
    my ($user, $group) = ($< + 0, $( + 0);
    apart(sub {
        call(setgid => $group); call(setuid => $user);
        call(setregid => $group, $group); call(setreuid => $user, $user);
        call(setresgid => $group, $group, $group); call(setresuid => $user, $user, $user);
    });
    # They answer the id before, whatever happens.
    check 'the id before', call(setfsuid => $user) == $user && call(setfsgid => $group) == $group;
    my $header = pack 'Ll', 0x20080522, 0;
    my $data = space(24);
    call(capget => $header, $data);
    call(capset => $header, $data);
},

'login' => sub {
    # Only root may; a plain user is refused by the kernel anyway.
    apart(sub { call(setgroups => 0, 0) }) if $< == 0;
},

'scheduler' => sub {
    my $attributes = space(56);
    call(sched_getattr => 0, $attributes, 56, 0);
    call(sched_setattr => 0, $attributes, 0);
    my $parameter = space(8);
    call(sched_getparam => 0, $parameter);
    call(sched_setparam => 0, $parameter);
    call(sched_getscheduler => 0);
    # SCHED_BATCH needs no right.
    call(sched_setscheduler => 0, 3, $parameter);
    call($_ => 1) for 'sched_get_priority_max', 'sched_get_priority_min';
    call(sched_rr_get_interval => 0, space(16));
    my $mask = space(128);
    check 'processors', call(sched_getaffinity => 0, 128, $mask) > 0;
    call(sched_setaffinity => 0, 128, $mask);
    # Tests may run with low priority; only root can raise it again.
    open my $stat, '<', '/proc/self/stat' or die "stat: $!\n";
    my $nice = (split ' ', <$stat>)[18];
    check 'niceness', call(getpriority => 0, 0) == 20 - $nice;
    call(setpriority => 0, 0, $nice);
    my $priority = call(ioprio_get => 1, 0);
    call(ioprio_set => 1, 0, 2 << 13 | 4);
},

'threads' => sub {
    my $word = space(8);
    check 'nobody to wake', call(futex => $word, 1, 1, 0, 0, 0) == 0;
    call(set_tid_address => $word);
    call(get_robust_list => 0, space(8), space(8));
    call(set_robust_list => my $list = space(24), 24);
    ask(rseq => 0, 0, 0, 0);
    call(membarrier => 0, 0, 0);
    call(arch_prctl => 0x1003, space(8));
    # A value that differs answers at once.
    my $waiter = pack 'QQLL', 9, address($word), 2, 0;
    ask(futex_waitv => $waiter, 1, 0, 0, 0);
    ask(futex_wake => $word, 1, 1, 2);
    ask(futex_wait => $word, 9, 1, 2, 0, 0);
    ask(futex_requeue => $waiter x 2, 0, 1, 1);
},

'debugger' => sub {
    my $child = fork // die;
    if (!$child) { call(ptrace => 0, 0, 0, 0); kill STOP => $$; exit 0 }
    waitpid $child, 2;
    my ($text, $read) = ('remember', space(8));
    my ($from, $to) = (pack('QQ', address($text), 8), pack('QQ', address($read), 8));
    check 'its memory', call(process_vm_readv => $child, $to, 1, $from, 1, 0) == 8 && $read eq $text;
    check 'its memory', call(process_vm_writev => $child, $to, 1, $from, 1, 0) == 8;
    call(ptrace => 7, $child, 0, 0);
    waitpid $child, 0;
},

'sandboxer' => sub {
    # What browsers and package managers do to confine their own children.
    my $action = pack 'L', 0x7fff0000;
    call(seccomp => 2, 0, $action);
    my $rules = ask(landlock_create_ruleset => pack('Q', 1 << 2), 8, 0);
    my $root = call(openat => $AT_FDCWD, "/\0", 010000000);
    ask(landlock_add_rule => $rules, 1, pack('Ql', 1 << 2, $root), 0);
    call(prctl => 38, 1, 0, 0, 0);
    ask(landlock_restrict_self => $rules, 0);
    call(personality => 0xffffffff);
},

'server' => sub {
    my $listener = call(socket => 1, 1, 0);
    my $name = pack 'Sa*', 1, "\0ringfence-corpus-$$";
    call(bind => $listener, $name, length $name);
    call(listen => $listener, 5);
    for my $accept (['accept'], ['accept4', 0]) {
        my ($how, @flags) = @$accept;
        my $client = call(socket => 1, 1, 0);
        call(connect => $client, $name, length $name);
        my $served = call($how => $listener, 0, 0, @flags);
        call(sendto => $client, "ping", 4, 0, 0, 0);
        my $text = space(4);
        check 'a ping', call(recvfrom => $served, $text, 4, 0, 0, 0) == 4 && $text eq 'ping';
        my $vector = pack 'QQ', address($text), 4;
        my $message = pack 'Q2QQQQQ', 0, 0, address($vector), 1, 0, 0, 0;
        call(sendmsg => $client, $message, 0);
        check 'a message', call(recvmsg => $served, $message, 0) == 4;
        my $many = $message . space(8);
        check 'one sent', call(sendmmsg => $client, $many, 1, 0) == 1;
        check 'one received', call(recvmmsg => $served, $many, 1, 0, 0) == 1;
        call($_ => $served, space(128), pack('L', 128)) for 'getsockname', 'getpeername';
        call(setsockopt => $served, 1, 9, pack('L', 1), 4);
        call(getsockopt => $served, 1, 9, space(4), pack('L', 4));
        call(shutdown => $served, 2);
    }
    call(socketpair => 1, 1, 0, space(8));
    for my $set (call(epoll_create => 1), call(epoll_create1 => 0)) {
        call(epoll_ctl => $set, 1, $listener, pack('LQ', 1, 0));
        my $events = space(120);
        call(epoll_wait => $set, $events, 10, 0);
        call(epoll_pwait => $set, $events, 10, 0, 0, 8);
        call(epoll_pwait2 => $set, $events, 10, pack('qq', 0, 1), 0, 8);
    }
    check 'a descriptor', call(eventfd => 0) > 2 && call(eventfd2 => 0, 0) > 2;
    call(ioctl => $listener, 0x5421, pack('l', 1));
},

);

my $wanted = $program{$ARGV[0] // ''} or die "no such program\n";
$wanted->();
