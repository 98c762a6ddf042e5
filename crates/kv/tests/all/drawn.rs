//! Commands, drawn: every one that is executed on rows, on few keys and few values, so that they meet.

/// SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, below: usize) -> usize {
        (self.next() % below.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn of<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

/// The letters in a pattern of a command:
/// K key, k the key of a type (s h l e z behind it), V value, M member, N number, I index, F float, C count, T time, P pattern, B score end, L
/// name end; `a|b` one of them; `[x y]` perhaps; `x+` once or more; `#n` the number of keys that follow.
const PATTERNS: &[&str] = &[
    "GET ks",
    "SET ks V",
    "SET ks V [NX|XX] [GET] [EX|PX T]",
    "SET K V [NX|XX] [KEEPTTL]",
    "SET ks V [GET]",
    "SETNX ks V",
    "SETEX ks T V",
    "PSETEX ks T V",
    "GETSET ks V",
    "GETDEL ks",
    "GETEX ks [EX|PX|EXAT T]",
    "GETEX ks PERSIST",
    "MGET K+",
    "MSET ks V",
    "MSET ks V ks V",
    "MSETNX ks V ks V",
    "APPEND ks V",
    "STRLEN ks",
    "GETRANGE ks I I",
    "SUBSTR ks I I",
    "SETRANGE ks N V",
    "INCR ks",
    "DECR ks",
    "INCRBY ks N",
    "DECRBY ks N",
    "INCRBYFLOAT ks F",
    "LCS ks ks",
    "LCS ks ks LEN",
    "LCS ks ks IDX [MINMATCHLEN C] [WITHMATCHLEN]",
    "SET ks N",
    "SET ks F",
    "DEL K",
    "DEL K+",
    "UNLINK K",
    "EXISTS K+",
    "TYPE K",
    "EXPIRE K T [NX|XX|GT|LT]",
    "PEXPIRE K T [NX|XX|GT|LT]",
    "EXPIREAT K T",
    "PEXPIREAT K T",
    "TTL K",
    "PERSIST K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K [REPLACE]",
    "TOUCH K+",
    "DBSIZE",
    "SORT K [LIMIT I I] [ASC|DESC] [ALPHA]",
    "SORT K [ALPHA] STORE K",
    "SORT_RO K ALPHA",
    "SORT kl|kz BY nosort [LIMIT I I] [DESC]",
    "KEYS P",
    "HSET kh M V",
    "HSET kh M V M V M V",
    "HMSET kh M V",
    "HSETNX kh M V",
    "HGET kh M",
    "HMGET kh M+",
    "HDEL kh M+",
    "HLEN kh",
    "HEXISTS kh M",
    "HSTRLEN kh M",
    "HGETALL kh",
    "HKEYS kh",
    "HVALS kh",
    "HINCRBY kh M N",
    "HINCRBYFLOAT kh M F",
    "HSET kh M N",
    "SADD ke M+",
    "SADD ke N+",
    "SREM ke M+",
    "SISMEMBER ke M",
    "SMISMEMBER ke M+",
    "SCARD ke",
    "SMEMBERS ke",
    "SMOVE ke ke M",
    "SINTER ke+",
    "SUNION ke+",
    "SDIFF ke+",
    "SINTERSTORE K ke+",
    "SUNIONSTORE ke ke+",
    "SDIFFSTORE ke ke+",
    "SINTERCARD #ke",
    "SINTERCARD #ke LIMIT C",
    "LPUSH kl V+",
    "RPUSH kl V+",
    "LPUSHX kl V",
    "RPUSHX kl V",
    "LPOP kl",
    "RPOP kl",
    "LPOP kl C",
    "RPOP kl C",
    "LLEN kl",
    "LINDEX kl I",
    "LRANGE kl I I",
    "LSET kl I V",
    "LTRIM kl I I",
    "LREM kl I V",
    "LINSERT kl BEFORE|AFTER V V",
    "LPOS kl V [RANK I] [COUNT C] [MAXLEN C]",
    "LMOVE kl kl LEFT|RIGHT LEFT|RIGHT",
    "RPOPLPUSH kl kl",
    "LMPOP #kl LEFT|RIGHT [COUNT C]",
    "ZADD kz F M",
    "ZADD kz F M F M F M",
    "ZADD kz [NX|XX] [GT|LT] [CH] F M F M",
    "ZADD kz [NX|XX] [GT|LT] INCR F M",
    "ZINCRBY kz F M",
    "ZREM kz M+",
    "ZSCORE kz M",
    "ZMSCORE kz M+",
    "ZCARD kz",
    "ZRANK kz M",
    "ZREVRANK kz M",
    "ZCOUNT kz B B",
    "ZRANGE kz I I [REV] [WITHSCORES]",
    "ZRANGE kz B B BYSCORE [REV] [LIMIT I I] [WITHSCORES]",
    "ZREVRANGE kz I I [WITHSCORES]",
    "ZRANGEBYSCORE kz B B [WITHSCORES] [LIMIT I I]",
    "ZREVRANGEBYSCORE kz B B [LIMIT I I]",
    "ZADD {t}lex 0 M 0 M 0 M",
    "ZRANGEBYLEX {t}lex L L [LIMIT I I]",
    "ZREVRANGEBYLEX {t}lex L L",
    "ZLEXCOUNT {t}lex L L",
    "ZRANGE {t}lex L L BYLEX [REV] [LIMIT I I]",
    "ZREMRANGEBYLEX {t}lex L L",
    "ZREMRANGEBYRANK kz I I",
    "ZREMRANGEBYSCORE kz B B",
    "ZPOPMIN kz [C]",
    "ZPOPMAX kz [C]",
    "ZMPOP #kz MIN|MAX [COUNT C]",
    "ZRANGESTORE K kz I I [REV]",
    "ZRANGESTORE kz kz B B BYSCORE [LIMIT I I]",
    "ZUNION #kz [AGGREGATE SUM|MIN|MAX] [WITHSCORES]",
    "ZINTER #kz [WITHSCORES]",
    "ZDIFF #kz [WITHSCORES]",
    "ZINTERCARD #kz [LIMIT C]",
    "ZUNIONSTORE kz #kz [AGGREGATE SUM|MIN|MAX]",
    "ZINTERSTORE kz #kz",
    "ZDIFFSTORE K #kz",
    "ZUNION 2 kz ke WEIGHTS F F WITHSCORES",
    "SSCAN ke 0 COUNT 100",
    "HSCAN kh 0 COUNT 100 [MATCH P]",
    "ZSCAN kz 0 COUNT 100",
    "SRANDMEMBER ke 100",
    "HRANDFIELD kh 100 [WITHVALUES]",
    "ZRANDMEMBER kz 100 [WITHSCORES]",
    "SPOP ke 100",
];

/// Words that are not sensible, now and then.
const ODD: &[&str] = &[
    "",
    "-1",
    "abc",
    "1.5",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "nan",
    "(1",
    "withscores",
];

/// A command's words.
pub fn command(dice: &mut Dice) -> Vec<String> {
    let pattern = PATTERNS[dice.below(PATTERNS.len())];
    let mut words = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let end = match rest.starts_with('[') {
            true => rest.find(']').map_or(rest.len(), |at| at + 1),
            false => rest.find(' ').unwrap_or(rest.len()),
        };
        let (part, behind) = rest.split_at(end);
        rest = behind.trim_start();
        match part
            .strip_prefix('[')
            .and_then(|part| part.strip_suffix(']'))
        {
            Some(optional) if dice.one_in(2) => {
                optional
                    .split(' ')
                    .for_each(|part| expand(part, dice, &mut words));
            }
            Some(_) => {}
            None => expand(part, dice, &mut words),
        }
    }
    // Else others would be drawn, or members of one score have several.
    if pattern.contains(" 100") || pattern.contains("lex") {
        return words;
    }
    if dice.one_in(60) {
        let at = dice.below(words.len());
        // A command's name stays; its keys, too, since another slot is refused.
        if at > 1 && !words[at].contains('{') {
            words[at] = dice.of(ODD).to_owned();
        }
    }
    if dice.one_in(200) {
        words.push("odd".to_owned());
    }
    if words.len() > 1 && dice.one_in(200) {
        words.pop();
    }
    words
}

fn expand(part: &str, dice: &mut Dice, words: &mut Vec<String>) {
    if let Some(part) = part.strip_suffix('+') {
        for _ in 0..=dice.below(3) {
            expand(part, dice, words);
        }
        return;
    }
    if let Some(part) = part.strip_prefix('#') {
        let count = 1 + dice.below(3);
        words.push(count.to_string());
        (0..count).for_each(|_| expand(part, dice, words));
        return;
    }
    let options: Vec<&str> = part.split('|').collect();
    let part = options[dice.below(options.len())];
    words.push(word(part, dice));
}

fn word(part: &str, dice: &mut Dice) -> String {
    const TYPES: [&str; 5] = ["s", "h", "l", "e", "z"];
    let key = |kind: &str, dice: &mut Dice| format!("{{t}}{kind}{}", dice.below(3));
    match part {
        "K" => {
            let kind = dice.of(&TYPES);
            key(kind, dice)
        }
        "ks" | "kh" | "kl" | "ke" | "kz" => {
            // The key has another type, now and then.
            let kind = if dice.one_in(30) {
                dice.of(&TYPES)
            } else {
                &part[1..]
            };
            key(kind, dice)
        }
        "V" => match dice.below(8) {
            0 => String::new(),
            1 => "x".repeat(dice.below(100)),
            2 => dice.below(5).to_string(),
            _ => dice
                .of(&["a", "b", "c", "hello", "foo bar", "ab", "ba"])
                .to_owned(),
        },
        "M" => match dice.below(6) {
            0 => "long-member-of-a-set-".repeat(1 + dice.below(4)),
            1 => dice.below(8).to_string(),
            _ => dice
                .of(&["a", "b", "c", "d", "e", "f", "ab", "é", ""])
                .to_owned(),
        },
        "N" => (dice.below(41) as i64 - 10).to_string(),
        "I" => (dice.below(14) as i64 - 5).to_string(),
        "C" => dice.below(5).to_string(),
        "T" => dice
            .of(&["2000000", "100000", "0", "-5", "500000"])
            .to_owned(),
        "F" => dice
            .of(&[
                "1",
                "2",
                "0.5",
                "-1.25",
                "3.1",
                "1e3",
                "-0",
                "0",
                "inf",
                "-inf",
                "1.1",
                "100000000000000000",
                "0.1",
            ])
            .to_owned(),
        "P" => dice
            .of(&["*", "{t}*", "{t}s?", "*[12]", "[^a]*", "a*"])
            .to_owned(),
        "B" => dice
            .of(&[
                "-inf", "+inf", "0", "(1", "1", "2", "(3.1", "0.5", "5", "-2",
            ])
            .to_owned(),
        "L" => dice
            .of(&["-", "+", "[a", "(a", "[c", "(d", "[ab", "["])
            .to_owned(),
        literal => literal.to_owned(),
    }
}
