/* The queue of those who wait for one lock, on one deployment, as it is built.

   README.md says what is modelled, what is not, and which lines of the scripts and of the
   client each step stands for. Without -D no assertion may fail; ./run checks that, and
   that one does fail where the protocol is changed. */

/* Who wants the lock. An attempt is one call of Lock, or several that have handed it on, and
   may be of a client of its own. */
#ifndef ATTEMPTS
#define ATTEMPTS 3      /* at most 3 */
#endif
#ifndef READERS
#define READERS 0       /* so many of them, the last ones, read */
#endif
#ifndef UNFAIR
#define UNFAIR 0        /* so many of them, the last ones, are unfair */
#endif

/* What happens, so many times in a run; -1 where it may happen whenever it likes. */
#ifndef CANCELS
#define CANCELS 0       /* a waiter gives up */
#endif
#ifndef DEATHS
#define DEATHS 0        /* a client dies, or is cut off for good */
#endif
#ifndef SILENT
#define SILENT 0        /* a request for the lock is not answered; it was applied, or may yet be */
#endif
#ifndef REPEATS
#define REPEATS 0       /* a request that was answered is applied once more, at any later time */
#endif
#ifndef LOST
#define LOST 0          /* a message is lost */
#endif
#ifndef GAPS
#define GAPS 0          /* a client's subscription breaks, and is made anew */
#endif
#ifndef FORCES
#define FORCES 0        /* somebody calls ForceRelease */
#endif
#ifndef TURNS
#define TURNS 0         /* a holder asks for tokens to pass along with the lock */
#endif
#ifndef RENEWALS
#define RENEWALS -1     /* a lease is renewed */
#endif
#ifndef TAKES
#define TAKES 0         /* so many tokens are drawn at most; 0: the lock has none */
#endif
#ifndef NATIVE
#define NATIVE 0        /* 1: the first request is a SET NX, as without tokens */
#endif
#ifndef TRUSTED
#define TRUSTED 1       /* 0: in a Cluster, where nobody knows who hears what is published */
#endif
#ifndef POLLS
#define POLLS 1         /* 0: no waiter looks unless it is told */
#endif

/* Times in ticks. */
#ifndef TICKS
#define TICKS 1         /* 0: no time passes, so that nothing runs out */
#endif
#ifndef TTL
#define TTL 3
#endif
#ifndef LIFE
#define LIFE 2          /* of a place in the queue after the request that took it or kept it */
#endif
#ifndef RANGE
#define RANGE 2         /* tokens that a holder reserves at a time */
#endif

#define MAX(x,y)      ((x) > (y) -> (x) : (y))
#define MIN(x,y)      ((x) < (y) -> (x) : (y))

/* Changes to the protocol: a variant is broken if it is defined. */
#ifdef WHOLE_TTL
#define GRANTS(p)     TTL
#else
#define GRANTS(p)     MIN(TTL, a[p].place)
#endif
#ifdef ANY_GRANT
#define ITS(p)        true
#else
#define ITS(p)        (a[p].grant == a[p].seq)
#endif
#ifdef FROM_MESSAGE
#define ACCEPTED(p)   MIN(TTL, LIFE)
#else
#define ACCEPTED(p)   a[p].left
#endif
#ifdef OVERTAKES
#define MAYTAKE       true
#else
#define MAYTAKE       (size == 0)
#endif
#ifdef ANYBODYS
#define ENDS(p)       a[1].hold = 0; a[2].hold = 0; a[3].hold = 0
#else
#define ENDS(p)       a[p].hold = 0
#endif
#ifdef PLACES_STAY
#define AGES(p)       false
#else
#define AGES(p)       (a[p].place > 0)
#endif
#ifdef UNRAISED
#define RAISES        0
#else
#define RAISES        RANGE
#endif
#ifdef UNRESERVED
#define MAYPASS       true
#else
#define MAYPASS       (a[me].used < a[me].reserved)
#endif
#ifdef SHORT_KEYS
#define OUTLASTS      (key == 0)
#else
#define OUTLASTS      (key < LIFE)
#endif

/* Phases of an attempt. */
#define NEW      0
#define ASKING   1      /* a request is on its way, or the answer is */
#define WAITING  2      /* it sleeps */
#define HELD     3      /* and believed in */
#define ENDING   4      /* given up, or lost; the release goes on until it is answered */
#define QUITTING 5      /* the caller has gone; so does the end of the attempt */
#define OVER     6
#define DEAD     7

/* Answers. */
#define NONE     0
#define YOURS    1
#define LOCKED   2
#define QUEUED   3
#define VOID     4

/* A seq is 1 if it is that of the last place that the attempt was given, 2 if it is that of
   the one before, and 0 if there is none. */
typedef Attempt {
	byte phase;
	/* on the server */
	byte hold;      /* ticks left of its lease */
	byte token;     /* that it was granted with */
	byte place;     /* ticks left of its place in the queue */
	bit passed;     /* over, once */
	bit over;       /* its id is remembered as given up */
	bit ear;        /* the server knows of its subscription */
	/* on the way */
	byte late;      /* 1: a request without a place may yet be applied, 2: one with a place */
	byte grant;     /* the seq in a message */
	bit look;       /* a message, or anything else, makes it look */
	byte reply;
	byte replyseq;
	byte replyleft; /* ticks left of what the request has armed */
	/* in the client */
	bit wants;      /* its requests are for a place, too */
	byte seq;       /* of the place that was confirmed last */
	byte left;      /* ticks: of that place, or of the lease; of all that its requests have asked for, if DEAD */
	byte used;      /* the last token that was given to one of its goroutines */
	byte reserved;
	bit broken;     /* somebody has force-released it */
	byte ahead;     /* those who knew of their places before it began, and must come before it */
}
Attempt a[4];           /* by process, from 1 on */
byte q[3], size;         /* the queue */
byte key;               /* ticks left of its keys, with KEYS */
byte fence;             /* the last token */
byte top;               /* the largest that anybody was given */
byte placed;            /* who knows of its place, and has it still */
short cancels = CANCELS, deaths = DEATHS, silent = SILENT, repeats = REPEATS, lost = LOST, gaps = GAPS,
	forces = FORCES, turns = TURNS, renewals = RENEWALS, takes = TAKES;

/* Scratch. */
hidden byte i, j, k, c, first, answer;

#define me            _pid
#define BIT(p)        (1<<(p))
#define MAY(budget)   (budget != 0)
#define SPEND(budget) budget = (budget > 0 -> budget-1 : budget)
#define READS(p)      ((p) > ATTEMPTS-READERS)
#define FAIR(p)       ((p) <= ATTEMPTS-UNFAIR)
#define BARS(p,o)     (a[p].hold > 0 && (p) != (o) && !(READS(p) && READS(o)))
#define BLOCKED(o)    (BARS(1,o) || BARS(2,o) || BARS(3,o))
#define FREE          (a[1].hold == 0 && a[2].hold == 0 && a[3].hold == 0)
#define WRITING       (TAKES == 0 || takes > 0)
#define STANDS(p)     (q[0] == (p) || q[1] == (p) || q[2] == (p))

/* p does not stand in anybody's way any more, or cannot complain. */
inline Excuse(p) {
	placed = placed & (255-BIT(p));
	a[1].ahead = a[1].ahead & (255-BIT(p));
	a[2].ahead = a[2].ahead & (255-BIT(p));
	a[3].ahead = a[3].ahead & (255-BIT(p))
}

/* Takes the n-th place away. */
inline Remove(n) {
	j = n;
	do
	:: j < 2 -> q[j] = q[j+1]; j++
	:: else -> break
	od;
	q[2] = 0; size--;
	key = (size == 0 -> 0 : key)
}

inline Forget(p) {
	k = 0;
	do
	:: k < size && q[k] != p -> k++
	:: else -> break
	od;
	if
	:: k < size -> Remove(k); Excuse(p)
	:: else
	fi;
	a[p].place = 0; a[p].passed = 0
}

inline Enter(p) {
	if
	:: !STANDS(p) ->
		j = size;
		do
		:: j > 0 && FAIR(p) && !FAIR(q[j-1]) -> q[j] = q[j-1]; j--
		:: else -> break
		od;
		q[j] = p; size++;
		a[p].passed = 0;
		a[p].seq = (a[p].seq == 1 || a[p].seq == 2 -> a[p].seq+1 : a[p].seq);
		a[p].replyseq = (a[p].replyseq == 1 || a[p].replyseq == 2 -> a[p].replyseq+1 : a[p].replyseq);
		a[p].grant = (a[p].grant == 1 || a[p].grant == 2 -> a[p].grant+1 : 0)
	:: else
	fi;
	a[p].place = LIFE;
#ifdef KEYS
	key = (OUTLASTS -> 2*LIFE : key)
#endif
}

inline Publish(p, granted) {
	if
	:: a[p].ear && (a[p].phase == ASKING || a[p].phase == WAITING) -> a[p].grant = granted; a[p].look = a[p].look | (1-granted)
	:: else
	fi
}

/* The server gives p the lock for so long. */
inline Give(p, ticks) {
	assert(a[p].ahead == 0 && a[p].phase != OVER);
	Excuse(p);
	a[p].hold = ticks;
	if
	:: TAKES > 0 && !READS(p) -> takes--; fence++
	:: else
	fi;
	a[p].token = fence
}

/* hand_over, pass_on. */
inline Serve(asking) {
	i = 0; first = 0;
	do
	:: i >= size -> break
	:: else ->
		c = q[i];
		if
		:: BLOCKED(c) -> first = c; break
		:: else ->
			if
			:: TRUSTED && !a[c].ear && !a[c].passed && c != asking ->
				a[c].passed = 1; Excuse(c); i++
			:: else ->
				if
				:: FAIR(c) ->
					k = GRANTS(c);
					Give(c, k);
					Remove(i);
					a[c].place = 0; a[c].passed = 0;
					if
					:: c != asking -> Publish(c, 1)
					:: else
					fi
				:: else -> Publish(c, 0); first = c; break
				fi
			fi
		fi
	od;
	i = 0; c = 0
}

/* The request for the lock is applied. */
inline Acquire(p, forplace) {
	first = 0;
	if
	:: a[p].hold > 0 ->
		a[p].hold = TTL;
		if
		:: forplace -> Forget(p)
		:: else
		fi;
		answer = YOURS
	:: a[p].hold == 0 && a[p].over -> answer = VOID
	:: else ->
		if
		:: !BLOCKED(p) && (MAYTAKE || !FAIR(p))
		:: else ->
			if
			:: forplace -> Enter(p)
			:: else
			fi;
			Serve(p)
		fi;
		if
		:: a[p].hold > 0 -> a[p].hold = TTL; answer = YOURS
		:: else ->
			if
			:: !BLOCKED(p) && (READERS == 0 || first == 0 || first == p) ->
				if
				:: forplace -> Forget(p)
				:: else
				fi;
				Give(p, TTL);
				answer = YOURS
			:: else -> answer = (forplace -> QUEUED : LOCKED)
			fi
		fi;
		assert(!FREE)
	fi
}

/* SET NX. It may come before others where a lease has run out unnoticed, or was ended by force. */
inline Set(p) {
	if
	:: FREE -> a[p].ahead = 0; Give(p, TTL); answer = YOURS
	:: else -> answer = LOCKED
	fi
}

/* The caller has the lock. */
inline Start() {
	a[me].seq = 0; a[me].reply = NONE; a[me].replyseq = 0; a[me].replyleft = 0;
	a[me].look = 0; a[me].grant = 0;
	if
	:: a[me].broken -> a[me].phase = ENDING; a[me].left = 0
	:: else ->
		assert(a[me].left > 0 && a[me].hold >= a[me].left);
		assert(a[1].phase != HELD || READS(1) && READS(me));
		assert(a[2].phase != HELD || READS(2) && READS(me));
		assert(a[3].phase != HELD || READS(3) && READS(me));
		a[me].phase = HELD;
		if
		:: TAKES > 0 && !READS(me) ->
			assert(a[me].token > top);
			top = a[me].token; a[me].used = top; a[me].reserved = top
		:: TAKES > 0 && READS(me) ->
			assert(a[me].token >= top)
		:: else
		fi
	fi
}

/* What can make no difference any more. */
inline Settle() {
	if
	:: a[me].phase >= ENDING ->
		a[me].reply = NONE; a[me].replyseq = 0; a[me].replyleft = 0; a[me].seq = 0;
		a[me].look = 0; a[me].grant = 0; a[me].wants = 0;
		a[me].used = 0; a[me].reserved = 0; a[me].ahead = 0; a[me].broken = 0;
		a[me].ear = (a[me].phase == DEAD || a[me].phase == QUITTING -> a[me].ear : 1);
		a[me].left = (a[me].phase == DEAD -> a[me].left : 0);
		Excuse(me)
	:: else
	fi;
	if
	:: a[me].phase >= OVER -> a[me].token = 0
	:: else
	fi;
	first = 0; answer = 0; i = 0; j = 0; k = 0; c = 0
}

/* --- the client */

#define FIRST         (me == 1 || a[me-1].phase != NEW || READS(me) != READS(me-1) || FAIR(me) != FAIR(me-1))

/* Where others were met lately, the first request is for a place, too. */
inline Begin(place) {
	d_step {
		a[me].phase == NEW && FIRST ->
		a[me].ahead = (FAIR(me) -> placed : 0);
		a[me].wants = place; a[me].ear = place;
		a[me].phase = ASKING
	}
}

/* Its request is applied. */
inline Apply(again) {
	d_step {
		a[me].phase == ASKING && a[me].reply == NONE && WRITING && (!again || MAY(repeats) && !(NATIVE && !a[me].wants)) ->
		if
		:: NATIVE && !a[me].wants -> Set(me)
		:: else -> Acquire(me, a[me].wants)
		fi;
		assert(answer != VOID);
		a[me].reply = answer;
		a[me].replyseq = (answer == QUEUED -> 1 : 0);
		a[me].replyleft = (answer == YOURS -> TTL : (answer == QUEUED -> MIN(TTL, LIFE) : 0));
		if
		:: again -> SPEND(repeats); a[me].late = 1+a[me].wants
		:: else
		fi;
		Settle()
	}
}

/* It was not answered in time: it has not been applied yet, or the reply is lost. The client asks
   again at once, or sleeps before. */
inline GoUnanswered(sleeps) {
	d_step {
		a[me].phase == ASKING && MAY(silent) && (!sleeps || a[me].seq > 0) ->
		SPEND(silent);
		a[me].late = (a[me].reply == NONE && !(NATIVE && !a[me].wants) -> 1+a[me].wants : a[me].late);
		a[me].reply = NONE; a[me].replyseq = 0; a[me].replyleft = 0;
		a[me].phase = (sleeps -> WAITING : ASKING);
		if
		:: NATIVE && !a[me].wants -> a[me].wants = 1; a[me].ear = 1 /* The next one is a script. */
		:: else
		fi;
		Settle()
	}
}

/* A request is applied late, or once more. */
inline Late() {
	d_step {
		a[me].late > 0 && WRITING ->
		Acquire(me, a[me].late-1);
		if
		:: a[me].phase == DEAD ->
			a[me].left = MAX(a[me].left, (answer == YOURS -> TTL : (answer == QUEUED -> LIFE : 0)))
		:: else
		fi;
		a[me].late = 0;
		Settle()
	}
}

inline Hear() {
	d_step {
		a[me].phase == ASKING && a[me].reply != NONE ->
		if
		:: a[me].reply == YOURS && a[me].replyleft > 0 -> a[me].left = a[me].replyleft; Start()
		:: a[me].reply == YOURS && a[me].replyleft == 0 -> a[me].reply = NONE
		:: a[me].reply == LOCKED ->
#ifdef SLEEPS_AT_ONCE
			a[me].ear = 1; a[me].wants = 1; a[me].phase = WAITING;
#else
#ifndef SUBSCRIBES_LATE
			a[me].ear = 1;
#endif
			a[me].wants = 1;
#endif
			a[me].reply = NONE
		:: a[me].reply == QUEUED ->
#ifdef SUBSCRIBES_LATE
			a[me].ear = 1;
#endif
			a[me].seq = a[me].replyseq; a[me].left = a[me].replyleft;
			a[me].reply = NONE; a[me].replyseq = 0; a[me].replyleft = 0;
			a[me].phase = WAITING;
			if
			:: a[me].seq == 1 && STANDS(me) && FAIR(me) -> placed = placed | BIT(me)
			:: else
			fi
		fi;
		Settle()
	}
}

/* A message, the end of a gap in the subscription, or the time wakes it. What it was told
   before it asks is dropped, if it has come by then and is no grant. */
inline Look(told) {
	d_step {
		a[me].phase == WAITING && (told -> a[me].look : POLLS) ->
		a[me].look = (told -> 0 : a[me].look);
		a[me].phase = ASKING
	}
}

inline Accept() {
	d_step {
		a[me].phase == WAITING && a[me].grant > 0 && ITS(me) && ACCEPTED(me) > 0 ->
		a[me].left = ACCEPTED(me);
		Start();
		Settle()
	}
}

/* It has been granted the lock, but too little is left of that; or the place is another one. */
inline Refuse() {
	d_step {
		a[me].phase == WAITING && a[me].grant > 0 ->
		a[me].phase = (a[me].grant == a[me].seq -> ASKING : WAITING);
		a[me].grant = 0
	}
}

inline Cancel() {
	d_step {
		(a[me].phase == ASKING || a[me].phase == WAITING) && MAY(cancels) ->
		SPEND(cancels);
		a[me].late = (a[me].phase == ASKING && a[me].reply == NONE && !(NATIVE && !a[me].wants) -> 1+a[me].wants : a[me].late);
		a[me].phase = QUITTING;
		Settle()
	}
}

inline GiveUp(heard) {
	d_step {
		a[me].phase == QUITTING && WRITING && (heard || MAY(silent)) ->
#ifndef FORGETFUL
		a[me].over = 1; a[me].late = 0;
#endif
		Forget(me);
#ifdef KEEPS_GRANT
		if
		:: a[me].hold == 0 -> Serve(0)
		:: else
		fi;
#else
		a[me].hold = 0;
#ifndef KEEPS_TURN
		Serve(0);
#endif
#endif
		if
		:: heard -> a[me].phase = OVER
		:: else -> SPEND(silent)
		fi;
		Settle()
	}
}

inline Die() {
	d_step {
		a[me].phase != NEW && a[me].phase != OVER && a[me].phase != DEAD && MAY(deaths) ->
		SPEND(deaths);
		a[me].late = (a[me].phase == ASKING && a[me].reply == NONE && !(NATIVE && !a[me].wants) -> 1+a[me].wants : a[me].late);
		a[me].left = MAX(a[me].hold, a[me].place);
		a[me].phase = DEAD;
		Settle()
	}
}

inline Renew(heard) {
	d_step {
		TICKS && a[me].phase == HELD && MAY(renewals) && a[me].hold > 0 && (a[me].hold < TTL || heard && a[me].left < TTL) ->
		SPEND(renewals);
		a[me].hold = TTL;
		a[me].left = (heard -> TTL : a[me].left)
	}
}

inline Turn(heard) {
	d_step {
		a[me].phase == HELD && MAY(turns) && a[me].hold > 0 && READERS == 0 && TAKES > 0 ->
		SPEND(turns);
		k = MAX(fence, a[me].used);
		fence = k+RAISES;
		a[me].reserved = (heard -> k+RANGE : a[me].reserved);
		k = 0
	}
}

/* The lock goes to another goroutine. */
inline Pass() {
	d_step {
		a[me].phase == HELD && TURNS != 0 && MAYPASS && a[me].used < TAKES+RANGE*TURNS ->
		a[me].used++;
		assert(a[me].used > top);
		top = a[me].used
	}
}

inline Unlock() {
	d_step {
		a[me].phase == HELD ->
		a[me].phase = ENDING;
		Settle()
	}
}

inline Release(heard) {
	d_step {
		a[me].phase == ENDING && WRITING && (heard || MAY(silent)) ->
#ifndef FORGETFUL
		a[me].over = 1; a[me].late = 0;
#endif
#ifndef KEEPS_PLACE
		Forget(me);
#endif
		ENDS(me);
		Serve(0);
		if
		:: heard -> a[me].phase = OVER
		:: else -> SPEND(silent)
		fi;
		Settle()
	}
}

/* The release is given up for a lease that has run out. */
inline Lapsed() {
	d_step {
		a[me].phase == ENDING && a[me].hold == 0 && a[me].place == 0 && a[me].late == 0 ->
		a[me].phase = OVER;
		Settle()
	}
}

/* A release or the end of an attempt is applied once more. */
inline Again() {
	d_step {
		a[me].phase == OVER && a[me].over && WRITING && MAY(repeats) ->
		SPEND(repeats);
		ENDS(me);
		Serve(0);
		Settle()
	}
}

inline Break() {
	d_step {
		a[me].ear && (a[me].phase == DEAD || (a[me].phase == ASKING || a[me].phase == WAITING) && MAY(gaps)) ->
		if
		:: a[me].phase != DEAD -> SPEND(gaps)
		:: else
		fi;
		a[me].ear = 0
	}
}

inline Mend() {
	d_step {
		GAPS != 0 && !a[me].ear && a[me].wants && (a[me].phase == ASKING || a[me].phase == WAITING) ->
		a[me].ear = 1; a[me].look = 1
	}
}

inline Lose() {
	d_step {
		(a[me].grant > 0 || a[me].look) && MAY(lost) ->
		SPEND(lost);
		a[me].grant = 0; a[me].look = 0
	}
}

proctype Waiter() {
end:	do
	:: Begin(0) :: Begin(1)
	:: Apply(0) :: Apply(1) :: GoUnanswered(0) :: GoUnanswered(1) :: Late()
	:: Hear() :: Look(0) :: Look(1) :: Accept() :: Refuse()
	:: Cancel() :: GiveUp(0) :: GiveUp(1)
	:: Die()
	:: Renew(0) :: Renew(1) :: Turn(0) :: Turn(1) :: Pass()
	:: Unlock() :: Release(0) :: Release(1) :: Lapsed() :: Again()
	:: Break() :: Mend() :: Lose()
	od
}

/* --- time, and others */

inline Down(x) { x = (x > 0 -> x-1 : 0) }

inline Age(p) {
	if
	:: a[p].phase == HELD && a[p].left == 1 -> a[p].phase = ENDING; a[p].used = 0; a[p].reserved = 0; a[p].wants = 0; a[p].ear = 1
	:: else
	fi;
	Down(a[p].left); Down(a[p].hold); Down(a[p].replyleft);
	if
	:: AGES(p) ->
		a[p].place--;
		if
		:: a[p].place == 0 -> Forget(p); Excuse(p)
		:: else
		fi
	:: else
	fi
}

inline Check(p) {
	assert(a[p].phase != HELD || a[p].hold >= a[p].left);
	assert(a[p].phase != OVER || a[p].hold == 0 && a[p].place == 0);
	assert(a[p].phase != DEAD || a[p].hold <= a[p].left && a[p].place <= a[p].left);
#ifdef KEYS
	assert(a[p].place <= key)
#endif
}

#define LATER(p)      (a[p].left > 0 || a[p].hold > 0 || a[p].place > 0 || a[p].replyleft > 0)

inline Tick() {
	d_step {
		TICKS && (LATER(1) || LATER(2) || LATER(3)) ->
		Down(key);
		Age(1); Age(2); Age(3);
		Check(1); Check(2); Check(3);
		i = 0; j = 0; k = 0
	}
}

/* ForceRelease ends what is held, and tells the first that can hear it. */
inline Force() {
	d_step {
		MAY(forces) && !FREE ->
		SPEND(forces);
		i = 1;
		do
		:: i <= ATTEMPTS ->
			if
			:: a[i].hold > 0 ->
				a[i].hold = 0;
				if
				:: a[i].phase == HELD -> a[i].phase = ENDING; a[i].left = 0; a[i].used = 0; a[i].reserved = 0; a[i].wants = 0; a[i].ear = 1
				:: a[i].phase == ASKING || a[i].phase == WAITING -> a[i].broken = 1
				:: else
				fi
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i >= size -> break
		:: else ->
			c = q[i];
			if
			:: TRUSTED && !a[c].ear && !a[c].passed -> a[c].passed = 1; Excuse(c); i++
			:: else -> Publish(c, 0); break
			fi
		od;
		i = 0; c = 0
	}
}

#define DONE(p)       (a[p].phase == OVER || a[p].phase == DEAD || (p) > ATTEMPTS)

init {
	atomic {
		i = 0;
		do
		:: i < ATTEMPTS -> run Waiter(); i++
		:: else -> i = 0; break
		od
	}
end:	do
	:: Tick()
	:: Force()
	:: timeout ->
		assert(DONE(1) && DONE(2) && DONE(3) || TAKES > 0 && takes == 0);
		assert(!TICKS || TAKES > 0 && takes == 0 || FREE && size == 0)
	od
}
