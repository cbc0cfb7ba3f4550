/* Fencing tokens on a quorum of three independent nodes, as they are built.

   README.md says what is modelled, what is not, and which line of the scripts each
   step stands for. Without -D no assertion may fail; ./run checks that, and that the
   assertions do fail where the protocol is changed. */

/* Bounds. */
#ifndef ATTEMPTS
#define ATTEMPTS 2      /* at most 3; each has an id of its own, and may be a client of its own */
#endif
#ifndef TAKES
#define TAKES 6         /* so often a node gives the lock, repeated and late requests included */
#endif
#ifndef TICKS
#define TICKS 0         /* so often the clocks tick */
#endif
#ifndef LOSSES
#define LOSSES 0        /* so many times a node loses all its data */
#endif
#ifndef REPEATS
#define REPEATS 1       /* 0: no client asks again under the same id, or is late with an older token */
#endif
#ifndef LEASES
#define LEASES 1        /* 0: leases end on nodes whenever they like, also while believed in */
#endif

/* Times, in ticks of the nodes' clocks. */
#ifndef SLACK
#define SLACK 1         /* δ: so far an offered token may lie from a node's clock */
#endif
#ifndef SKEW
#define SKEW 0          /* so far the nodes' clocks may lie from one another */
#endif
#ifndef RETENTION
#define RETENTION (2*SLACK+SKEW+1)
#endif
#ifndef QUARANTINE
#define QUARANTINE (2*SLACK+SKEW+1)
#endif

/* Tokens in a tick (µs, in fact). Tokens that grow by use must not overtake the clocks. */
#ifndef TICK
#define TICK (TICKS > 0 -> TAKES+1 : 1)
#endif

/* Changes to the protocol: a variant is broken if it is defined. */
#ifdef NO_STEP_2
#define ENOUGH(t,u)   true
#else
#define ENOUGH(t,u)   ((t) == (u))
#endif
#ifdef UNCONDITIONAL
#define AGREES(i,t)   true
#define LATE_ANYWHERE true
#else
#define LATE_ANYWHERE false
#ifdef ANY_COUNTER
#define AGREES(i,t)   MINE(i)
#else
#define AGREES(i,t)   (MINE(i) && n[i].counter <= (t))
#endif
#endif
#ifdef CAPPED
#define RAISED(i,t)   MIN(t, HIGHEST(i))
#else
#define RAISED(i,t)   (t)
#endif
#ifdef NO_LOWER_CLAMP
#define LOWEST(i)     0
#else
#define LOWEST(i)     (TICK*CLOCK(i))
#endif
#define HIGHEST(i)    (TICK*(CLOCK(i)+2*SLACK))

/* Tokens are shifted up by TICK*SLACK, so that LOWEST is never negative. */
#define CLOCK(i)      (now+n[i].ahead)

#define MAX(a,b)      ((a) > (b) -> (a) : (b))
#define MIN(a,b)      ((a) < (b) -> (a) : (b))

/* Sets of attempts are bits. */
typedef Node {
	byte lock;      /* the attempt whose record stands, or 0 */
	byte first;     /* the token in the record: what step 1 answers, however often */
	byte counter;   /* the fence key, or 0 */
	byte kept;      /* ticks until the counter lapses */
	byte barred;    /* in quarantine: 1 + ticks */
	byte ahead;     /* of the slowest clock */
	byte leased;    /* who may count on the lock here for as long as he believes in it */
	byte ok;        /* who has heard that the node agrees to his T */
}
Node n[3];
byte now, takes = TAKES, losses = LOSSES;

/* Requests need no state of their own: what an attempt has sent may be applied at any
   later time, again, or never, and its reply may be lost. */
#define NEW      0
#define ASKING   1      /* step 1 */
#define AGREEING 2      /* step 2 */
#define OVER     3      /* given up, or past its deadline, before a grant */
#define HELD     4      /* granted and believed in */
#define ENDED    5      /* was granted, and is not believed in any more */
typedef Attempt {
	byte phase;
	byte T;
	byte late;      /* an earlier T, of which a request is still on its way, or 0 */
	byte floor;     /* the largest token that had been granted when it began */
}
Attempt a[4];           /* by process, from 1 on */
int x;                  /* scratch, 0 between the steps */

#define me            _pid
#define MINE(i)       (n[i].lock == me)
#define BIT(p)        (1<<(p))
#define HAS(i,set,p)  ((n[i].set>>(p)) & 1)
#define COUNT(set,p)  (HAS(0,set,p) + HAS(1,set,p) + HAS(2,set,p))
#define MAJORITY(set) (COUNT(set,me) >= 2)
#define ADD(i,set)    n[i].set = n[i].set | BIT(me)
#define DROP(i,set)   n[i].set = n[i].set & (255-BIT(me))
#define CLEAR(set)    DROP(0,set); DROP(1,set); DROP(2,set)

#define TOKEN(p)      (a[p].phase >= HELD -> a[p].T : 0)
#define LARGEST       MAX(TOKEN(1), MAX(TOKEN(2), TOKEN(3)))
#define BELIEVES(p)   (LEASES && a[p].phase != OVER && a[p].phase != ENDED)
#define SPARED(i,p)   (!BELIEVES(p) || !HAS(i,leased,p) || COUNT(leased,p) == 3)

/* Every step ends with Settle, which makes states one that differ only in what makes no
   difference any more. */
#define KEPT          MIN(RETENTION, TICKS-now+1)       /* more cannot lapse within the run */
inline Forget(p) {
	if
	:: takes == 0 && COUNT(leased,p) == 0 && n[0].lock != p && n[1].lock != p && n[2].lock != p ->
		a[p].late = 0; a[p].T = (a[p].phase == OVER && !LATE_ANYWHERE -> 0 : a[p].T)
	:: else
	fi
}
#define RECORD(i)     (a[n[i].lock].phase > AGREEING -> 0 : n[i].first)

/* Nodes are alike, so that their order makes none. */
#define KEY(i)        ((((n[i].lock<<8|n[i].counter)<<8|n[i].first)<<4|n[i].leased)<<4|n[i].ok)
inline Sort(i, j) {
	if
	:: KEY(i) > KEY(j) ->
		x = n[i].lock;    n[i].lock = n[j].lock;       n[j].lock = x;
		x = n[i].first;   n[i].first = n[j].first;     n[j].first = x;
		x = n[i].counter; n[i].counter = n[j].counter; n[j].counter = x;
		x = n[i].kept;    n[i].kept = n[j].kept;       n[j].kept = x;
		x = n[i].barred;  n[i].barred = n[j].barred;   n[j].barred = x;
		x = n[i].ahead;   n[i].ahead = n[j].ahead;     n[j].ahead = x;
		x = n[i].leased;  n[i].leased = n[j].leased;   n[j].leased = x;
		x = n[i].ok;      n[i].ok = n[j].ok;           n[j].ok = x;
		x = 0
	:: else
	fi
}
inline Settle() {
	n[0].first = RECORD(0); n[1].first = RECORD(1); n[2].first = RECORD(2);
	Forget(1); Forget(2); Forget(3);
	Sort(0, 1); Sort(1, 2); Sort(0, 1)
}

inline Grant() {
#if LEASES
	assert(a[1].phase != HELD && a[2].phase != HELD && a[3].phase != HELD);
	assert(a[me].T > LARGEST);
#else
	assert(a[me].T > a[me].floor);
	assert(a[me].T != TOKEN(1) && a[me].T != TOKEN(2) && a[me].T != TOKEN(3));
#endif
	CLEAR(ok);
	a[me].floor = 0; a[me].phase = HELD
}

/* A request that carries T may yet come, or not. */
inline Supersede() {
	if
	:: REPEATS -> a[me].late = a[me].T
	:: skip
	fi
}

/* The client hears of step 1. With the second answer it goes on: were it to have the
   third, it would do what it does with some two of them. */
inline Answer(i) {
	ADD(i,leased);
	if
	:: !MAJORITY(leased) -> a[me].T = n[i].first
	:: else ->
		if
		:: ENOUGH(a[me].T, n[i].first) -> a[me].T = MAX(a[me].T, n[i].first); Grant()
		:: else -> a[me].T = MAX(a[me].T, n[i].first); a[me].phase = AGREEING
		fi
	fi
}

/* Step 1 is applied. The client's clock may be anything, and so may the offer be; that
   all nodes are offered the same serves speed only. */
inline Take(i) {
	atomic {
		n[i].lock == 0 && n[i].barred == 0 && takes > 0 && (me == 1 || a[me-1].phase != NEW) ->
		x = LOWEST(i);
		do
		:: x+TICK <= HIGHEST(i) -> x = x+TICK
		:: break
		od;
		if
		:: a[me].phase == NEW -> a[me].phase = ASKING; a[me].floor = (LEASES -> 0 : LARGEST)
		:: else
		fi;
		takes--;
		n[i].lock = me;
		n[i].first = MAX(n[i].counter+1, x); x = 0;
		n[i].counter = n[i].first; n[i].kept = KEPT;
		if
		:: a[me].phase == ASKING && !HAS(i,leased,me) -> Answer(i)
		:: skip
		fi;
		Settle()
	}
}

/* It is applied again, under the same id: the answer is that of the first time. */
inline Retake(i) {
	d_step {
		MINE(i) && a[me].phase == ASKING && !HAS(i,leased,me) ->
		Answer(i);
		Settle()
	}
}

/* Step 2 with the token t is applied: also with one from before, while step 1 is asked again. */
inline Agree(i, t) {
	d_step {
		(a[me].phase >= AGREEING || t == a[me].late) && AGREES(i,t) && n[i].counter < t ->
		n[i].counter = MAX(n[i].counter, RAISED(i,t)); n[i].kept = KEPT;
		Settle()
	}
}

/* The client hears what the node says to T. If it knows a larger token, step 2 begins again. */
inline Hear(i) {
	atomic {
		a[me].phase == AGREEING && !HAS(i,ok,me) && (MINE(i) || AGREES(i,a[me].T)) ->
		if
		:: AGREES(i,a[me].T) ->
			if
			:: n[i].counter < a[me].T -> n[i].counter = MAX(n[i].counter, RAISED(i,a[me].T)); n[i].kept = KEPT
			:: else
			fi;
			ADD(i,ok);
			if
			:: MAJORITY(ok) -> Grant()
			:: else
			fi
		:: else ->
			Supersede();
			CLEAR(ok);
			a[me].T = n[i].counter
		fi;
		Settle()
	}
}

/* Too few nodes have answered, or too late: the client asks again under the same id. */
inline Again() {
	atomic {
		REPEATS && (a[me].phase == AGREEING || (a[me].phase == ASKING && COUNT(leased,me) > 0)) ->
		if
		:: a[me].phase == AGREEING -> Supersede()
		:: else
		fi;
		CLEAR(leased); CLEAR(ok);
		a[me].phase = ASKING; a[me].T = 0;
		Settle()
	}
}

inline Renew(i) {
	d_step {
		a[me].phase >= HELD && MINE(i) ->
		n[i].counter = MAX(n[i].counter, a[me].T); n[i].kept = KEPT;
		if
		:: a[me].phase == HELD -> ADD(i,leased)
		:: else
		fi;
		Settle()
	}
}

/* The client gives up, releases, or its deadline passes. Where leases end whenever they
   like it makes no difference when. */
inline End() {
	d_step {
		BELIEVES(me) && a[me].phase != NEW ->
		a[me].T = (a[me].phase == ASKING -> 0 : a[me].T);
		a[me].phase = (a[me].phase == HELD -> ENDED : OVER);
		CLEAR(leased); CLEAR(ok);
		Settle()
	}
}

proctype Client() {
end:	do
	:: Take(0) :: Take(1) :: Take(2)
	:: Retake(0) :: Retake(1) :: Retake(2)
	:: Agree(0, a[me].T) :: Agree(1, a[me].T) :: Agree(2, a[me].T)
	:: Agree(0, a[me].late) :: Agree(1, a[me].late) :: Agree(2, a[me].late)
	:: Hear(0) :: Hear(1) :: Hear(2)
	:: Again()
	:: Renew(0) :: Renew(1) :: Renew(2)
	:: End()
	od
}

/* A lock goes by a release or by expiry. */
inline Free(i) {
	d_step {
		n[i].lock != 0 && SPARED(i,n[i].lock) ->
		n[i].leased = n[i].leased & (255-BIT(n[i].lock));
		n[i].lock = 0; n[i].first = 0;
		Settle()
	}
}

inline Pass(i) {
	n[i].kept = MAX(n[i].kept, 1)-1;
	n[i].counter = (n[i].kept == 0 -> 0 : n[i].counter);
	n[i].barred = (n[i].barred > 1 -> n[i].barred-1 : n[i].barred)
}

/* Counters are kept for longer than leases. */
#define MAYPASS(i)    (n[i].kept != 1 || n[i].lock == 0)
inline Tick() {
	d_step {
		now < TICKS && MAYPASS(0) && MAYPASS(1) && MAYPASS(2) ->
		now++;
		Pass(0); Pass(1); Pass(2);
		Settle()
	}
}

inline Lose(i) {
	d_step {
		losses > 0 ->
		losses--;
		n[i].lock = 0; n[i].first = 0; n[i].counter = 0; n[i].kept = 0;
		n[i].barred = QUARANTINE+1;
		Settle()
	}
}

/* Quarantine lasts for the longest TTL: what was forgotten is not believed in any more,
   unless it was renewed elsewhere. */
inline Rejoin(i) {
	d_step {
		n[i].barred == 1 && SPARED(i,1) && SPARED(i,2) && SPARED(i,3) ->
		n[i].barred = 0; n[i].leased = 0;
		Settle()
	}
}

init {
	atomic {
		do
		:: n[1].ahead < SKEW -> n[1].ahead++
		:: n[2].ahead < SKEW -> n[2].ahead++
		:: break
		od;
		do
		:: x < ATTEMPTS -> run Client(); x++
		:: else -> x = 0; break
		od
	}
end:	do
	:: Free(0) :: Free(1) :: Free(2)
	:: Tick()
	:: Lose(0) :: Lose(1) :: Lose(2)
	:: Rejoin(0) :: Rejoin(1) :: Rejoin(2)
	od
}
