package conformance

import (
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/golocker/golocker/locker/driver"
)

// replyCases: Do returns the Values that package driver defines, through
// RESP2 and RESP3 alike.
var replyCases = []testCase{
	{name: "Do/Reply/Nil", run: func(k *kit) {
		conn := k.open()
		k.reply(conn, cmd("GET", k.key("absent")), nil)
		k.reply(conn, script("return false", nil), nil) // which is how a script says that there is nothing
		sha, _ := k.direct("SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])").(string)
		k.reply(conn, driver.Command{Args: []string{"EVALSHA", sha, "1", k.key("absent")}, FirstKey: 3, NumKeys: 1}, nil)
	}},
	{name: "Do/Reply/NilArray", run: func(k *kit) {
		k.reply(k.open(), cmd("BLPOP", k.key("absent"), "0.05"), nil)
	}},
	{name: "Do/Reply/Integer", run: func(k *kit) {
		conn := k.open()
		k.reply(conn, cmd("EXISTS", k.key("absent")), int64(0))
		k.reply(conn, cmd("INCRBY", k.key("max"), strconv.FormatInt(math.MaxInt64, 10)), int64(math.MaxInt64))
		k.reply(conn, cmd("DECRBY", k.key("min"), strconv.FormatInt(math.MaxInt64, 10)), int64(-math.MaxInt64))
	}},
	{name: "Do/Reply/Bulk", run: func(k *kit) {
		conn := k.open()
		for _, s := range []string{"hello", "1", "-1", "OK", "nil", "true", "$5"} {
			k.direct("SET", k.key("s"), s)
			k.reply(conn, cmd("GET", k.key("s")), s)
		}
	}},
	{name: "Do/Reply/EmptyBulk", run: func(k *kit) {
		k.direct("SET", k.key("s"), "")
		k.reply(k.open(), cmd("GET", k.key("s")), "")
	}},
	{name: "Do/Reply/Status", run: func(k *kit) {
		conn := k.open()
		k.reply(conn, cmd("SET", k.key("s"), "x"), "OK")
		k.reply(conn, script("return redis.status_reply('FINE')", nil), "FINE")
	}},
	{name: "Do/Reply/Array", run: func(k *kit) {
		k.reply(k.open(), script("return {KEYS[1], ARGV[1], 7}", []string{k.key("a")}, "b"), []any{k.key("a"), "b", int64(7)})
	}},
	{name: "Do/Reply/EmptyArray", run: func(k *kit) {
		k.reply(k.open(), script("return {}", nil), []any{})
	}},
	{name: "Do/Reply/NestedArray", run: func(k *kit) {
		k.reply(k.open(), script("return {1, {'two', {3, {}}}, 'four'}", nil),
			[]any{int64(1), []any{"two", []any{int64(3), []any{}}}, "four"})
	}},
	{name: "Do/Reply/NilInArray", run: func(k *kit) {
		k.direct("SET", k.key("a"), "1")
		conn := k.open()
		k.reply(conn, driver.Command{
			Args:     []string{"MGET", k.key("a"), k.key("absent"), k.key("a")},
			FirstKey: 1, NumKeys: 3,
		}, []any{"1", nil, "1"})
		k.reply(conn, script("return {'a', false, 2}", nil), []any{"a", nil, int64(2)})
	}},
	{name: "Do/Reply/NestedError", run: func(k *kit) {
		k.reply(k.open(), script("return {'a', redis.error_reply('MYCODE no luck'), 2}", nil),
			[]any{"a", &driver.ServerError{Code: "MYCODE", Message: "MYCODE no luck"}, int64(2)})
	}},
	{name: "Do/Reply/Map", run: func(k *kit) {
		k.direct("HSET", k.key("h"), "field", "value")
		k.reply(k.open(), cmd("HGETALL", k.key("h")), []any{"field", "value"})
	}},
	{name: "Do/Reply/Set", run: func(k *kit) {
		k.direct("SADD", k.key("set"), "member")
		k.reply(k.open(), cmd("SMEMBERS", k.key("set")), []any{"member"})
	}},
	{name: "Do/Reply/Kept", run: func(k *kit) {
		// What Do has returned belongs to the caller: later replies do not change it.
		conn := k.open()
		var kept []driver.Value
		for i := range 10 {
			kept = append(kept, k.must(conn, plain("ECHO", k.prefix+strconv.Itoa(i))),
				k.must(conn, script("return {ARGV[1]}", nil, k.prefix+strconv.Itoa(i))))
		}
		for i := range 10 {
			want := k.prefix + strconv.Itoa(i)
			if got := kept[2*i : 2*i+2]; !reflect.DeepEqual(got, []driver.Value{want, []any{want}}) {
				k.never("Do gave %s and an array of it, of which later replies have made %s and %s", show(want), show(got[0]), show(got[1]))
			}
		}
	}},
	{name: "Do/Reply/Double", run: func(k *kit) {
		k.direct("ZADD", k.key("z"), "2.5", "member")
		k.reply(k.open(), cmd("ZSCORE", k.key("z"), "member"), "2.5")
	}},
	{name: "Do/Reply/Typed", needs: needs{realServer: true}, run: func(k *kit) {
		// What these become in RESP2 is what the contract makes of them in RESP3.
		conn := k.open()
		k.reply(conn, script(`redis.setresp(3) return {
			true, {double=-0.25}, {map={key='value'}}, {set={member=true}}, {'nested', {double=3}}}`, nil),
			[]any{int64(1), "-0.25", []any{"key", "value"}, []any{"member"}, []any{"nested", "3"}})
		k.reply(conn, script("redis.setresp(3) return {false, 1}", nil), []any{int64(0), int64(1)})
		if info, _ := k.must(conn, plain("INFO", "server")).(string); !strings.HasPrefix(info, "#") { // a verbatim string
			k.Errorf("INFO server begins with %.20q; want what the server says, from its first #", info)
		}
		for text, value := range map[string]string{
			"txt: text":                      "{verbatim_string={format='txt', string='txt: text'}}",
			"123456789012345678901234567890": "{big_number='123456789012345678901234567890'}",
		} {
			returns, want := "redis.setresp(3) return {"+value+"}", []any{text}
			if reflect.DeepEqual(k.direct("EVAL", returns, "0"), want) { // before Redis 7.0 scripts have neither of these
				k.reply(conn, script(returns, nil), want)
			}
		}
	}},
}

// reply checks the reply to a command. Values have to be the same in type too.
func (k *kit) reply(conn driver.Conn, c driver.Command, want driver.Value) {
	if got := k.must(conn, c); !reflect.DeepEqual(got, want) {
		k.Errorf("Do(%v) = %s; want %s", c, show(got), show(want))
	}
}

// show prints a Value with its type, shortened.
func show(v driver.Value) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case string:
		return "string " + shorten(v)
	case []any:
		s := "["
		for i, e := range v {
			if i == 20 {
				return s + "…]"
			}
			s += show(e) + ", "
		}
		return s + "]"
	case *driver.ServerError:
		return "*ServerError{" + v.Code + ": " + v.Message + "}"
	case int64:
		return "int64 " + strconv.FormatInt(v, 10)
	default:
		return reflect.TypeOf(v).String() + " (not a driver.Value)"
	}
}
