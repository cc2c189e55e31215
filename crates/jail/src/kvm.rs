//! Runs a few instructions in a virtual machine: a device file alone proves nothing.
//!
//! Nested or emulated KVM often opens fine and then cannot run a kernel. The guest here is in 64-bit ring 0 and uses
//! `cmpxchg16b`, which every Linux kernel needs and which such set-ups are seen to fail on.

use crate::attempt::Refused;

/// Builds and runs the guest; it must halt after having changed its memory.
#[cfg(target_arch = "x86_64")]
pub(crate) fn run_guest() -> Result<(), Refused> {
    x86_64::run_guest()
}

/// Not written for this architecture: the answer is no, not a guess.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn run_guest() -> Result<(), Refused> {
    Err(Refused::with(crate::attempt::Step::KvmSetup, libc::ENOSYS))
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::mem::size_of;

    use kvm_bindings::{KVM_EXIT_HLT, kvm_regs, kvm_run, kvm_segment, kvm_sregs, kvm_userspace_memory_region};

    use crate::attempt::{Refused, Step, check};

    /// ioctl(2) numbers as `linux/kvm.h` builds them: direction, size, 0xAE, number.
    const fn request(direction: u64, size: usize, number: u64) -> u64 {
        (direction << 30) | ((size as u64) << 16) | (0xAE << 8) | number
    }
    const NONE: u64 = 0;
    const WRITE: u64 = 1;
    const READ: u64 = 2;
    const CREATE_VM: u64 = request(NONE, 0, 0x01);
    const RUN_SIZE: u64 = request(NONE, 0, 0x04);
    const SUPPORTED_CPUID: u64 = request(READ | WRITE, 8, 0x05);
    const CREATE_VCPU: u64 = request(NONE, 0, 0x41);
    const SET_MEMORY: u64 = request(WRITE, size_of::<kvm_userspace_memory_region>(), 0x46);
    const RUN: u64 = request(NONE, 0, 0x80);
    const SET_REGS: u64 = request(WRITE, size_of::<kvm_regs>(), 0x82);
    const GET_SREGS: u64 = request(READ, size_of::<kvm_sregs>(), 0x83);
    const SET_SREGS: u64 = request(WRITE, size_of::<kvm_sregs>(), 0x84);
    const SET_CPUID: u64 = request(WRITE, 8, 0x90);

    const MEMORY: usize = 0x1_0000;
    const PAGE_TABLES: [(usize, u64); 3] = [
        (0x1000, 0x2000 | 3), // level 4 → level 3, present and writable
        (0x2000, 0x3000 | 3), // level 3 → level 2
        (0x3000, 0x80 | 3),   // level 2: the first two MiB as one page
    ];
    const CODE: usize = 0x4000;
    const DATA: usize = 0x6000;
    /// lock cmpxchg16b [rdi]; hlt
    const PROGRAM: [u8; 6] = [0xF0, 0x48, 0x0F, 0xC7, 0x0F, 0xF4];
    const WANTED: [u64; 2] = [0x1122_3344_5566_7788, 0x99AA_BBCC_DDEE_FF00];

    /// The processor features of the host, as KVM passes them: a count and entries of 40 bytes.
    #[repr(C)]
    struct Cpuid {
        count: u32,
        padding: u32,
        entries: [[u32; 10]; 256],
    }

    fn segment(kind: u8, selector: u16, long: u8) -> kvm_segment {
        kvm_segment {
            limit: u32::MAX,
            selector,
            type_: kind,
            present: 1,
            db: 1 - long,
            s: 1,
            l: long,
            g: 1,
            ..kvm_segment::default()
        }
    }

    pub(super) fn run_guest() -> Result<(), Refused> {
        let setup = Step::KvmSetup;
        // WHY: KVM is driven by ioctls on raw memory; the safe wrappers allocate, which a forked child must not.
        // SAFETY: every ioctl gets the structure that its number was built for; the guest's memory and the run area are
        // mappings of the sizes used below, and everything dies with the child.
        unsafe {
            let kvm = libc::open(c"/dev/kvm".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            check(Step::KvmDevice, kvm)?;
            let vm = libc::ioctl(kvm, CREATE_VM, 0);
            check(setup, vm)?;
            let memory = map(MEMORY, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
            for (at, entry) in PAGE_TABLES {
                memory.byte_add(at).cast::<u64>().write(entry);
            }
            std::ptr::copy_nonoverlapping(PROGRAM.as_ptr(), memory.byte_add(CODE).cast(), PROGRAM.len());
            let region = kvm_userspace_memory_region {
                memory_size: MEMORY as u64,
                userspace_addr: memory as u64,
                ..kvm_userspace_memory_region::default()
            };
            check(setup, libc::ioctl(vm, SET_MEMORY, &raw const region))?;
            let vcpu = libc::ioctl(vm, CREATE_VCPU, 0);
            check(setup, vcpu)?;
            let mut cpuid = Cpuid { count: 256, padding: 0, entries: [[0; 10]; 256] };
            check(setup, libc::ioctl(kvm, SUPPORTED_CPUID, &raw mut cpuid))?;
            check(setup, libc::ioctl(vcpu, SET_CPUID, &raw const cpuid))?;
            let mut special = kvm_sregs::default();
            check(setup, libc::ioctl(vcpu, GET_SREGS, &raw mut special))?;
            enter_long_mode(&mut special);
            check(setup, libc::ioctl(vcpu, SET_SREGS, &raw const special))?;
            let registers = kvm_regs {
                rip: CODE as u64,
                rdi: DATA as u64,
                rbx: WANTED[0],
                rcx: WANTED[1],
                rflags: 2,
                ..kvm_regs::default()
            };
            check(setup, libc::ioctl(vcpu, SET_REGS, &raw const registers))?;
            let size = check(setup, libc::ioctl(kvm, RUN_SIZE, 0))?;
            let run = map(usize::try_from(size).unwrap_or_default(), libc::MAP_SHARED, vcpu)?;
            check(Step::KvmRun, libc::ioctl(vcpu, RUN, 0))?;
            let halted = (*run.cast::<kvm_run>()).exit_reason == KVM_EXIT_HLT;
            let swapped = memory.byte_add(DATA).cast::<[u64; 2]>().read() == WANTED;
            if halted && swapped { Ok(()) } else { Err(Refused::with(Step::KvmRun, libc::EIO)) }
        }
    }

    fn enter_long_mode(special: &mut kvm_sregs) {
        special.cs = segment(11, 8, 1);
        let data = segment(3, 16, 0);
        (special.ds, special.es, special.ss) = (data, data, data);
        special.cr3 = PAGE_TABLES[0].0 as u64;
        special.cr4 = 1 << 5; // physical address extension
        special.cr0 = (1 << 31) | (1 << 5) | (1 << 4) | 1; // paging, numeric error, extension type, protection
        special.efer = (1 << 10) | (1 << 8); // long mode active and enabled
    }

    /// # Safety
    /// `fd` must be mappable with `size`, or -1 with an anonymous mapping.
    unsafe fn map(size: usize, flags: libc::c_int, fd: libc::c_int) -> Result<*mut libc::c_void, Refused> {
        // WHY: guest memory and the run area are mappings.
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
        if address == libc::MAP_FAILED { Err(Refused::last(Step::KvmSetup)) } else { Ok(address) }
    }
}
