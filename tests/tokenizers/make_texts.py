"""Texts for tests of tokenizers: languages, code, emoji, controls and marks, the same for the same seed."""
import random

WORDS = {
    "english": "the of and to in that it was his with as for had you not be her on at by which have or from this "
               "him but all she they were my are me one their so an said them we who would been will no when there "
               "if more out up into do any your what has man could other than our some very time upon about may its "
               "only now like little then can should made did us such great before must two these see know over much "
               "down after first Mr good men own never most old shall day where those came come himself way work life "
               "without go make well through being long say might how am too even def again many back here think every "
               "people went same last thought away under take found hand eyes still place while just also young yet "
               "I'm you're he's she'll they've I'd don't DON'T WE'LL it'S international tokenization misunderstanding",
    "german": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus "
              "er hat dass sie nach wird bei einer Straße Größe überprüfen Äpfel Öl Übermut Fußgängerübergänge",
    "french": "le de un être et à il avoir ne je son que se qui ce dans en du elle au pour pas vous par sur faire plus "
              "dire me on mon lui nous comme mais pouvoir avec tout y aller voir où déjà été l'été d'accord cœur",
    "russian": "и в не на я быть он с что а по это она этот к но они мы весь который из у то за свой весь год от так",
    "greek": "και το να του η της με που την από για είναι στο θα ότι ΣΊΣΥΦΟΣ όδος",
    "hindi": "के में है की से और का को पर यह हैं कि जो कर क्षत्रिय स्त्री हिन्दी",
    "arabic": "في من على إلى أن هذا التي كان مع ما ٱلسَّلَامُ عَلَيْكُمْ",
    "hebrew": "שלום עולם בְּרֵאשִׁית אני לא זה",
    "thai": "สวัสดีชาวโลก ภาษาไทย กำลัง ทำ",
    "turkish": "İstanbul ılık IĞDIR iğne şöyle çığ",
    "vietnamese": "Việt Nam tiếng Việt người được những",
}
CJK = "的一是在不了有和人這中大為上個國我以要他時來用們生到作地於出就分對成會可主發年動同工也能下過子說產種面而方後多定行學法所民得經十三之進著等部度家電力裡如水化高自二理起小物現實加量都兩體制機當使點從業本去把性好應開它合還因由其些然前外天政四日那社義事平形相全表間樣與關各重新線內數正心反你明看原又麼利比或但質氣第向道命此變條只沒結解問意建月公無系軍很情者最立代想已通並提直題黨程展五果料象員革位入常文總次品式活設及管特件長求老頭基資邊流路級少圖山統接知較將組見計別她手角期根論運農指幾九區強放決西被幹做必戰先回則任取據處"
KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをんアイウエオカキクケコガギグゲゴパピプペポー。、「」"
HANGUL = "가나다라마바사아자차카타파하한국어안녕하세요대한민국"
EMOJI = ["😀", "🤣", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇫🇷", "❤️", "☃", "✈️", "🧑🏿‍🚀", "1️⃣", "🫠"]
ODD = ["\u0000", "\u0001", "\u001b[31m", "\u007f", "\u0085", "\u00a0", "\u00ad", "\u1680", "\u180e", "\u2003", "\u200b",
       "\u200d", "\u2028", "\u2029", "\u202e", "\u202f", "\u2060", "\u3000", "\ufeff", "\ufffd", "\uffff", "\U0010ffff",
       "\U000e0041", "\t", "\r", "\r\n", "\n\n\n", "    ", "  \n  ", "\v", "\f", "e\u0301", "a\u0323\u0307", "q\u0307\u0323",
       "\u0301", "\u1112\u1161\u11ab", "\u212b", "\u2126", "\u1e9b\u0323", "\ufb01", "\uff21\uff11", "\u2460", "\u00bd",
       "\u0660\u0661\u0662", "\u2167", "\u017f", "'\u017f", "\u212a", "\u0130", "\u2581", "\u2581\u2581x", "x\u2581", "\u0e33",
       "\u0120", "\u010a", "<s>", "</s>", "<unk>", "<0x0A>", "<|endoftext|>", "<|im_start|>", "  <mask>  ", "<0x41>",
       "time\u200d", "time\u200c", "time\u2167", "\u24b6time", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
       "\U0001f150", "\u0344", "\u0958", "\u2adc", "\ufb1d", "\U0001d15e", "\uac00\u11a8", "\u00e9", "\u0041\u030a"]
CODE = ["def f(x: int) -> str:\n    return f\"{x!r:>{10}}\"  # comment\n", "#include <vector>\nint main() { return v[i++] << 2U; }\n",
        "SELECT * FROM t WHERE a='b''c' AND n>=1e-9;\n", "\tif (a && !b) {\r\n\t\tc += 0xFF_FFu64;\r\n\t}\r\n",
        "<div class=\"a-b\">&nbsp;</div>\n", "https://example.org/a?b=c&d=%20#e\n", "x = {'k': [1, 2.50, -3e+10], \"q\": None}\n",
        "3.14159 1000000 1,234,567.89 2024-11-24T02:10:32Z 0x7f 007\n", "!!!???...---***///\\\\\\___\n", "a_b_c camelCase HTTPServer2\n"]


class Texts:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.words = {name: text.split() for name, text in WORDS.items()}

    def sentence(self):
        words = self.words["english" if self.random.random() < 0.5 else self.random.choice(sorted(self.words))]
        text = " ".join(self.random.choice(words) for _ in range(self.random.randint(3, 14)))
        if self.random.random() < 0.3:
            text = text.capitalize()
        return text + self.random.choice([". ", ", ", "! ", "? ", "; ", "\n", ".\n\n", " - ", " (", ") ", "… ", "” "])

    def east(self):
        letters = self.random.choice([CJK, CJK, KANA, HANGUL])
        return "".join(self.random.choice(letters) for _ in range(self.random.randint(1, 30))) + self.random.choice("。，! \n")

    def number(self):
        return str(self.random.randint(0, 10 ** self.random.randint(1, 15))) + self.random.choice([" ", ".", ",", "\n"])

    def strange(self):
        return "".join(chr(self.code_point()) for _ in range(self.random.randint(1, 6)))

    def code_point(self):
        # Assigned long ago, so that all libraries know them alike.
        low, high = self.random.choice([(0, 0x17f), (0x300, 0x36f), (0x370, 0x52f), (0x5d0, 0x5ea), (0x900, 0x97f),
                                        (0xe01, 0xe3a), (0x1e00, 0x1eff), (0x2000, 0x206f), (0x2100, 0x218b),
                                        (0x2190, 0x23ff), (0x3041, 0x3096), (0x4e00, 0x9fa5), (0xac00, 0xd7a3),
                                        (0xf900, 0xfa2d), (0xff01, 0xffbe), (0x1f300, 0x1f5ff), (0x1f600, 0x1f64f)])
        return self.random.randint(low, high)

    def piece(self):
        kind = self.random.random()
        if kind < 0.45:
            return self.sentence()
        if kind < 0.6:
            return self.east()
        if kind < 0.72:
            return self.random.choice(CODE)
        if kind < 0.8:
            return self.random.choice(EMOJI) + self.random.choice(["", " "])
        if kind < 0.88:
            return self.random.choice(ODD)
        return self.number() if kind < 0.94 else self.strange()

    def text(self, size):
        pieces = []
        while size > 0:
            pieces.append(self.piece())
            size -= len(pieces[-1].encode())
        return "".join(pieces)

    def shorts(self, count):
        """Short texts: odd ones alone and in pairs, and random mixtures."""
        texts = ["", " ", "  ", "a", " a", "a ", "\n", "hello world", " hello  world ", "aaaaaaaaaaaaaaaaaaaaaaaa" * 20]
        texts += ODD + EMOJI + CODE
        for _ in range(count):
            texts.append("".join(self.random.choice([self.random.choice(ODD), self.random.choice(EMOJI), self.strange(),
                                                     self.random.choice(self.words["english"]), " ", "1", "é", "\n"])
                                 for _ in range(self.random.randint(1, 7))))
        return texts
