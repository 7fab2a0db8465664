/* Lease, fence and settle of one run in a shared store.
 *
 * An owner stores its intent, dispatches, appends, renews its lease and
 * settles. Reapers take over a run whose lease has expired and settle it. A
 * Stop may come at any moment. Calls may arrive late, after their caller has
 * given up, and in any order; replies may be lost; a process may stand still
 * for any time, or die. README.md says what is left out.
 *
 * -DNOFENCE leaves out the comparison of epochs, -DNOTRUST the owner's look at
 * its own clock, -DNOLEASE the store's look at the lease. Each has a
 * counterexample. */

#define LEASE   2 /* ticks from a renewal to its end by the store's clock */
#define TRUST   1 /* ticks that an owner relies on, counted from before the call */
#define FRAMES  1
#define LOSSES  1 /* replies that get lost or come too late, all together */
#ifndef REAPERS
#define REAPERS 1
#endif
#define SLOTS   2 /* calls that are under way at one time */
#define EPOCHS  4 /* at this epoch the clock stands, and before it nothing more is lost */
#define NOBODY  9

mtype = { QUEUED, RUNNING, CANCELLING, DONE,
          NONE, COMPLETED, FAILED, CANCELLED, UNCERTAIN,
          INTEND, APPEND, RENEW, SETTLE, TAKEOVER,
          OK, STOPPING, FENCED, SETTLED, REFUSED, LOST };

/* The store. */
mtype state = QUEUED;
mtype end = NONE;
byte epoch = 1;
byte ttl = LEASE;
byte stored = 0;

/* What has happened. */
byte dispatches = 0;
byte ends = 0;
byte losses = 0;
bool dead = false;  /* the owner does nothing for the run any more */
byte trust = TRUST; /* the owner's own clock */
byte asked = 0;     /* what trust becomes if the renewal under way succeeds */

/* A call: caller, what, epoch, end. A reply: outcome, epoch, state. waiting is
 * the place of the call whose reply a caller waits for. */
chan call[SLOTS] = [1] of { byte, mtype, byte, mtype };
chan reply[REAPERS + 1] = [1] of { mtype, byte, mtype };
byte waiting[REAPERS + 1] = NOBODY;

inline finish(how) {
	ends++;
	assert(ends == 1);      /* one terminal state */
	assert(end == NONE);
	end = (state == CANCELLING && how != UNCERTAIN -> CANCELLED : how);
	state = DONE
}

/* fenced is the comparison of epochs that every write begins with. */
#ifdef NOFENCE
#define fenced(e) false
#else
#define fenced(e) (e != epoch)
#endif

#ifdef NOLEASE
#define live false
#else
#define live (ttl > 0)
#endif

/* apply carries one call out, in one step. */
inline apply(what, e, how, said) {
	said = OK;
	if
	:: what != TAKEOVER && fenced(e)             -> said = FENCED
	:: what == TAKEOVER && state == DONE -> said = SETTLED
	:: what == TAKEOVER && state != DONE && (live || e != epoch) -> said = REFUSED
	:: what == TAKEOVER && state != DONE && !live && e == epoch ->
		assert(trust == 0);             /* nobody takes over what its owner relies on */
		epoch++;
		ttl = LEASE
	:: what != TAKEOVER && !fenced(e) ->
		if
		:: state == DONE -> said = SETTLED
		:: else ->
			assert(e == epoch);     /* no write by an old epoch */
			if
			:: what == INTEND ->
				if
				:: state == QUEUED -> state = RUNNING
				:: else            -> said = REFUSED
				fi
			:: what == APPEND ->
				if
				:: state == RUNNING    -> stored++
				:: state == CANCELLING -> said = STOPPING
				:: else                -> said = REFUSED
				fi
			:: what == RENEW ->
				ttl = LEASE;
				if
				:: state == CANCELLING -> said = STOPPING
				:: else
				fi
			:: what == SETTLE ->
				if
				:: state == QUEUED && how != FAILED -> said = REFUSED
				:: else                             -> finish(how)
				fi
			fi
		fi
	fi
}

/* Store serves calls in any order, however late. Nobody hears the reply to a
 * call that was given up. */
inline serve(place) {
	apply(what, e, how, said);
	if
	:: waiting[who] == place -> reply[who] ! said, epoch, state
	:: else
	fi;
	who = 0; e = 0; what = 0; how = 0; said = 0
}

proctype Store() {
	byte who, e;
	mtype what, how, said;
end_store:
	do
	:: atomic { call[0] ? who, what, e, how -> serve(0) }
	:: atomic { call[1] ? who, what, e, how -> serve(1) }
	od
}

/* ask makes a call and waits for its reply, or gives up: then the call may have
 * been carried out, or may still be. */
inline ask(me, what, e, how) {
	atomic {
		if
		:: what == RENEW -> asked = TRUST
		:: else
		fi;
		if
		:: empty(call[0]) -> call[0] ! me, what, e, how; waiting[me] = 0
		:: empty(call[1]) -> call[1] ! me, what, e, how; waiting[me] = 1
		fi
	};
	if
	:: atomic { reply[me] ? said, seen, stands -> waiting[me] = NOBODY }
	:: atomic {
		losses < LOSSES && epoch < EPOCHS - 1 ->
		losses++;
		said = LOST;
		waiting[me] = NOBODY;
		if
		:: nempty(reply[me]) -> reply[me] ? _, _, _
		:: empty(reply[me])
		fi
	   }
	fi
}

proctype Owner() {
	byte seen, sent;
	mtype said, stands, how;

	/* The intent. Whoever lost the reply to it cannot know, and settles once. */
	ask(0, INTEND, 1, NONE);
	if
	:: said == OK ->
		atomic {
			if
#ifdef NOTRUST
			:: true ->
#else
			:: trust > 0 ->
#endif
				assert(state != DONE);  /* nothing is sent for a run that has ended */
				dispatches++;
				assert(dispatches == 1)
#ifndef NOTRUST
			:: trust == 0 -> how = FAILED
#endif
			fi
		}
	:: said == LOST -> how = FAILED
	:: else         -> goto away
	fi;
	if
	:: how == FAILED -> ask(0, SETTLE, 1, FAILED); goto away
	:: else
	fi;

	do
	:: sent < FRAMES ->
		ask(0, APPEND, 1, NONE);
		if
		:: said == OK       -> sent++
		:: said == LOST     -> skip             /* it waits in the window; sent twice it changes nothing */
		:: said == STOPPING -> how = CANCELLED; break
		:: else             -> goto away
		fi
	:: true ->
		ask(0, RENEW, 1, NONE);
		if
		:: said == OK       -> trust = asked
		:: said == LOST     -> skip
		:: said == STOPPING -> how = CANCELLED; break
		:: else             -> goto away
		fi
	:: how = COMPLETED; break
	:: goto away                            /* it dies */
	od;

	/* A settlement is repeated until it is stored or fenced. */
	do
	:: true ->
		ask(0, SETTLE, 1, how);
		if
		:: said == LOST -> skip
		:: else         -> break
		fi
	:: goto away
	od;
away:
	dead = true
}

/* Reaper is another instance. It looks for a lease that has expired, takes the
 * run over and settles it; if it fails in between, the next one does. */
proctype Reaper(byte me) {
	byte seen;
	mtype said, stands;
end_reaper:
	do
	:: state != DONE && !live ->
		seen = epoch;
		ask(me, TAKEOVER, seen, NONE);
		if
		:: said == OK ->
			if
			:: stands == QUEUED -> ask(me, SETTLE, seen, FAILED)
			:: else             -> ask(me, SETTLE, seen, UNCERTAIN)
			fi
		:: else
		fi
	od
}

/* Stop is stored by any instance and ends a run that was not dispatched. */
proctype Stop() {
	atomic {
		if
		:: state == QUEUED  -> finish(CANCELLED)
		:: state == RUNNING -> state = CANCELLING
		:: else
		fi
	}
}

/* Clock is both clocks: they may run at any speed against the processes, and
 * run at one speed against each other. */
proctype Clock() {
end_clock:
	do
	:: d_step { ttl > 0 && epoch < EPOCHS ->
		ttl--;
		trust = (trust > 0 -> trust - 1 : 0);
		asked = (asked > 0 -> asked - 1 : 0)
	   }
	od
}

init {
	byte i;
	atomic {
		run Store();
		run Clock();
		run Stop();
		run Owner();
		for (i : 1 .. REAPERS) { run Reaper(i) }
	}
}

#define ended (state == DONE)

/* An end is for ever. */
ltl forever { [] ((end == COMPLETED -> [] (end == COMPLETED)) &&
                  (end == FAILED    -> [] (end == FAILED)) &&
                  (end == CANCELLED -> [] (end == CANCELLED)) &&
                  (end == UNCERTAIN -> [] (end == UNCERTAIN)) &&
                  (ended <-> end != NONE)) }

/* A run whose owner is gone ends, if every process goes on (pan -f). */
ltl buried { [] (dead -> <> ended) }
