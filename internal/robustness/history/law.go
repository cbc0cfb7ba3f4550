package history

// A Law is one of the invariants that a fault may be allowed to break.
type Law string

// The laws of locks.
const (
	Exclusion  Law = "I1" // conflicting leases never overlap
	LossFirst  Law = "I2" // a lost lease has ended before somebody else is granted
	Fencing    Law = "I3" // a later grant has a larger token
	Wakeup     Law = "I4" // a free lock with waiters is granted soon
	Mortality  Law = "I5" // every key has a TTL at every instant
	Idempotent Law = "I6" // a request may be applied several times
	Liveness   Law = "I7" // after faults heal every lock can be had
	Order      Law = "I8" // waiters are served in the order of arrival
	ReadWrite  Law = "I9" // readers share, a writer is alone
)
