package conformance_test

// queueMutants break the order of waiters and the way of a grant.
var queueMutants = []lockMutant{
	luaMutant("waiters are told to race", "release", "return e.mode == 'm' or nil", "return nil",
		"Queue/Newcomer", "Queue/HandOffCost"),
	luaMutant("newcomers do not see the queue", "acquire", "if fair and not value and redis.call('EXISTS', KEYS[3]) == 1 then", "if false then",
		"Queue/Newcomer"),
	luaMutant("who came last is first", "", "seq = math.max(last and now + after_all or now, (tonumber(before[2]) or 0) + 1)", "seq = -now",
		"Queue/Order", "Queue/PollersKeepTheirPlace", "Queue/PassedOver"),
	luaMutant("a place is not kept", "", "digits(math.max(e.expires, now / 1000 + life))", "digits(e.expires > 0 and e.expires or now / 1000 + life)",
		"Queue/PollersKeepTheirPlace"),
	luaMutant("all places look the same", "", "e = {seq = seq, passed", "e = {seq = '1', passed",
		"Queue/OldGrantIgnored"),
	luaMutant("a grant lasts a whole lease", "", "math.floor(math.min(e.ttl, e.expires - now))", "tonumber(e.ttl)",
		"Queue/DeadWaiter"),
	luaMutant("who cannot hear is waited for", "", "return not failed(count) and count[2] == 0", "return false",
		"Queue/PassedOver"),
	luaMutant("who cannot hear is removed", "", "redis.pcall('HSET', entries, reservation, 'gl1|1|1|'", "forget(queue, entries, reservation, ''",
		"Queue/PassedOver"),
}
