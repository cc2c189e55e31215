//! The helper processes of one engine. One serves one request at a time, so there are more of them when many ask at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jail::cgroups::Limits;
use jail::zygote::{Network, Zygote};

use crate::programs::ZYGOTE;
use crate::sandbox::StartError;

/// One helper; whoever it made lives and dies with it.
pub(crate) type Helper = Arc<Mutex<Zygote>>;

/// More would only wait for each other in the kernel.
const MOST: usize = 8;

/// What is to be kept prepared, by every helper.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) network: Network,
    pub(crate) limits: Option<Limits>,
    pub(crate) name: String,
    pub(crate) count: u32,
}

#[derive(Default)]
struct State {
    all: Vec<Helper>,
    wanted: Option<Wanted>,
}

/// All helpers of an engine. The first is there from the start; the others come when they are needed.
pub(crate) struct Helpers {
    state: Mutex<State>,
    most: usize,
}

/// Takes a helper for oneself. A panic elsewhere leaves it as it is.
pub(crate) fn lock(helper: &Helper) -> MutexGuard<'_, Zygote> {
    helper.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() -> Result<Helper, StartError> {
    Ok(Arc::new(Mutex::new(Zygote::start(ZYGOTE).map_err(StartError::Helper)?)))
}

impl Helpers {
    pub(crate) fn start() -> Result<Self, StartError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let state = State { all: vec![start()?], wanted: None };
        Ok(Self { state: Mutex::new(state), most: processors.min(MOST) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Helper> {
        self.state().all.clone()
    }

    /// Has every helper, and those to come, keep sandboxes prepared.
    pub(crate) fn prepare(&self, wanted: &Wanted) -> Result<(), StartError> {
        self.state().wanted = Some(wanted.clone());
        self.all().iter().try_for_each(|helper| prepare(helper, wanted))
    }

    /// Does something with a helper that has nothing else to do: one that is there, or one more.
    pub(crate) fn with<T>(&self, number: u32, work: impl FnOnce(&mut Zygote) -> T) -> Result<(Helper, T), StartError> {
        let all = self.all();
        for helper in &all {
            if let Ok(mut free) = helper.try_lock() {
                let done = work(&mut free);
                return Ok((Arc::clone(helper), done));
            }
        }
        let helper =
            if all.len() < self.most { self.another()? } else { Arc::clone(&all[number as usize % all.len()]) };
        let done = work(&mut lock(&helper));
        Ok((helper, done))
    }

    fn another(&self) -> Result<Helper, StartError> {
        let mut state = self.state();
        // Somebody else may have been first.
        if let Some(last) = state.all.last().filter(|_| state.all.len() >= self.most) {
            return Ok(Arc::clone(last));
        }
        let helper = start()?;
        if let Some(wanted) = &state.wanted {
            prepare(&helper, wanted)?;
        }
        state.all.push(Arc::clone(&helper));
        Ok(helper)
    }
}

fn prepare(helper: &Helper, wanted: &Wanted) -> Result<(), StartError> {
    let mut zygote = lock(helper);
    // Helpers count by themselves, and their groups lie side by side.
    let name = format!("{}-{}", wanted.name, zygote.pid());
    Ok(zygote.prepare(wanted.network, wanted.limits, name, wanted.count)?)
}
