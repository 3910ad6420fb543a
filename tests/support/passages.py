"""Passages in several languages, made up for the tests: four of a language, what they are about, and one in more."""

from __future__ import annotations

PASSAGES = {
    "tr": (
        "Kiracı, kira bedelini her ayın ilk günü kiraya verenin hesabına öder. Geciken ödemeler için faiz uygulanır.",
        "İşçiler yılda yirmi gün ücretli izin kullanır. Kullanılmayan izinler bir sonraki yıla devredilemez.",
        "Makinenin filtreleri üç ayda bir temizlenir. Temizlikten önce fişi çekmek ve makineyi soğutmak gerekir.",
        "Müşteri, ürünü teslim aldıktan sonra on dört gün içinde sebep göstermeden iade edebilir.",
    ),
    "de": (
        "Der Mieter zahlt die Miete am ersten Tag des Monats. Für verspätete Zahlungen werden Zinsen berechnet.",
        "Den Angestellten stehen im Jahr achtundzwanzig Urlaubstage zu. Nicht genommene Tage verfallen Ende März.",
        "Die Filter der Maschine werden alle drei Monate gereinigt. Vor der Reinigung ist der Stecker zu ziehen.",
        "Der Kunde darf die Ware binnen vierzehn Tagen ohne Angabe von Gründen zurückgeben, wenn sie unbenutzt ist.",
    ),
    "hi": (
        "किरायेदार हर महीने की पहली तारीख को किराया चुकाता है। देर से किए गए भुगतानों पर ब्याज लगता है।",
        "कर्मचारियों को साल में बीस दिन की छुट्टियाँ मिलती हैं। बची हुई छुट्टियाँ अगले साल में नहीं जोड़ी जातीं।",
        "मशीन के फ़िल्टर हर तीन महीने में साफ़ किए जाते हैं। सफ़ाई से पहले बिजली बंद करना ज़रूरी है।",
        "ग्राहक चौदह दिनों के भीतर पुस्तकें बिना कारण बताए लौटा सकते हैं और पूरा मूल्य वापस पा सकते हैं।",
    ),
    "ar": (
        "يدفع المستأجر الإيجار في اليوم الأول من كل شهر إلى حساب المالك، وتضاف فوائد على الدفعات المتأخرة.",
        "يحصل الموظفون على عشرين يوماً من الإجازات المدفوعة في السنة، ولا تنقل الإجازات إلى السنة التالية.",
        "تنظف مرشحات الآلة كل ثلاثة أشهر، ويجب فصل الكهرباء قبل التنظيف حتى لا يقع حادث.",
        "يحق للزبون أن يعيد الكتب خلال أربعة عشر يوماً دون أن يذكر السبب، وهذا بشرط أن تكون سليمة.",
    ),
    "zh": (
        "承租人应在每月的第一天把租金付到出租人的账户。逾期付款的，按日计算利息。",
        "员工每年享有二十天带薪休假。没有用完的假期不能转到下一年。",
        "机器的过滤器每三个月清洗一次。清洗以前必须拔掉电源插头。",
        "顾客收到商品以后，可以在十四天之内无理由退货。",
    ),
    "ja": (
        "借主は毎月一日に家賃を貸主の口座に振り込む。支払いが遅れた場合には利息がかかる。",
        "従業員には年に二十日の有給休暇がある。使わなかった休暇は翌年に繰り越すことができない。",
        "機械のフィルターは三か月ごとに掃除する。掃除の前に電源プラグを抜かなければならない。",
        "お客様は商品を受け取ってから十四日以内であれば、理由を問わず返品できます。",
    ),
    "th": (
        "ผู้เช่าต้องชำระค่าเช่าในวันแรกของทุกเดือนเข้าบัญชีของผู้ให้เช่า หากชำระล่าช้าจะคิดดอกเบี้ย",
        "พนักงานมีสิทธิลาพักร้อนปีละยี่สิบวัน วันลาที่ไม่ได้ใช้จะยกไปปีถัดไปไม่ได้",
        "ต้องทำความสะอาดไส้กรองของเครื่องทุกสามเดือน และต้องถอดปลั๊กก่อนทำความสะอาด",
        "ลูกค้าคืนสินค้าได้ภายในสิบสี่วันหลังจากได้รับสินค้า โดยไม่ต้องบอกเหตุผล",
    ),
}
"""Four passages of a language: on rent, on leave, on cleaning a machine, on returning goods."""

INFLECTED = {
    "tr": (
        ("geciken ödeme", 0),
        ("izinler devir", 1),
        ("filtre temizliği", 2),
        ("ürünün iadesi", 3),
        ("İşçinin izni", 1),
    ),
    "de": (("Zins Zahlung", 0), ("Urlaubstag eines Angestellter", 1), ("Maschinen Reinigungen", 2), ("Grund", 3)),
    "hi": (("भुगतान", 0), ("कर्मचारी की छुट्टी", 1), ("महीना मशीनों", 2), ("पुस्तक", 3), ("ग्राहकों", 3)),
    "ar": (("فائدة الدفعة", 0), ("الموظف", 1), ("إجازة الموظفين", 1), ("الآلات", 2), ("كتبهم سليمات", 3)),
}
"""Queries in other forms than the passage has, and which passage they are about."""

EXACT = {
    "tr": (("kira bedelini", 0), ("faiz", 0), ("ücretli", 1), ("fişi çekmek", 2)),
    "de": (("Zinsen", 0), ("MIETER", 0), ("März", 1), ("Stecker", 2), ("unbenutzt", 3)),
    "hi": (("ब्याज", 0), ("साल", 1), ("बिजली", 2), ("मूल्य", 3)),
    "ar": (("المستأجر", 0), ("السنة", 1), ("الكهرباء", 2), ("السبب", 3), ("المُستأجِر", 0)),
    "zh": (("租金什么时候付", 0), ("带薪休假有多少天", 1), ("过滤器多久清洗", 2), ("无理由退货", 3), ("利息", 0)),
    "ja": (("家賃の支払い", 0), ("有給休暇は何日", 1), ("フィルターの掃除", 2), ("返品", 3), ("利息", 0)),
    "th": (("ค่าเช่า", 0), ("ลาพักร้อน", 1), ("ไส้กรอง", 2), ("คืนสินค้า", 3), ("ดอกเบี้ย", 0)),
}
"""Queries with words, or in Chinese, Japanese and Thai stretches, as the passage has them."""

PARAGRAPHS = {
    "en": "The tenant pays the rent on the first day of the month, and the landlord gives a receipt for it at once.",
    "fr": "Le locataire paie le loyer le premier jour du mois, et le bailleur lui en donne une quittance sans délai.",
    "es": "El inquilino paga la renta el primer día del mes y el dueño de la casa le entrega un recibo por ella.",
    "it": "L'inquilino paga l'affitto il primo giorno del mese e il proprietario gli consegna subito una ricevuta.",
    "pt": "O inquilino paga a renda no primeiro dia do mês e o dono da casa entrega-lhe um recibo, sem demora.",
    "ca": "El llogater paga el lloguer el primer dia del mes i l'amo de la casa li dona un rebut amb la data.",
    "nl": "De huurder betaalt de huur op de eerste dag van de maand en de verhuurder geeft hem een bewijs daarvan.",
    "da": "Lejeren betaler huslejen den første dag i måneden, og udlejeren giver ham en kvittering efter det.",
    "no": "Leietakeren betaler husleien den første dagen i måneden, og utleieren gir ham noe skriftlig etter det.",
    "sv": "Hyresgästen betalar hyran den första dagen i månaden och hyresvärden ger honom ett kvitto på den.",
    "fi": "Vuokralainen maksaa vuokran kuukauden ensimmäisenä päivänä, ja omistaja antaa siitä kuitin, jos on tarpeen.",
    "et": "Üürnik maksab üüri kuu esimesel päeval ja üürileandja annab talle selle kohta tšeki, kui see on vajalik.",
    "hu": "A bérlő a hónap első napján fizeti meg a bért, és a tulajdonos nyugtát ad neki, ha az szükséges.",
    "pl": "Najemca płaci czynsz pierwszego dnia miesiąca, a wynajmujący daje mu na to pokwitowanie, jeżeli prosi.",
    "cs": "Nájemce platí nájem prvního dne v měsíci a pronajímatel mu na něj vydá potvrzení, pokud o ně požádá.",
    "sk": "Nájomca platí nájomné v prvý deň mesiaca a prenajímateľ mu naň vydá potvrdenie, ak oň požiada.",
    "ro": "Chiriașul plătește chiria în prima zi a lunii, iar proprietarul îi dă o chitanță pentru ea, dacă o cere.",
    "lt": "Nuomininkas moka nuomą pirmą mėnesio dieną, o nuomotojas duoda jam kvitą, jei prašo, kaip yra sutarta.",
    "id": "Penyewa membayar sewa pada hari pertama setiap bulan, dan pemilik rumah memberi kuitansi untuk itu.",
    "vi": "Người thuê trả tiền thuê vào ngày đầu tiên của tháng và chủ nhà đưa cho họ một biên nhận về khoản đó.",
    "ru": "Арендатор платит за квартиру в первый день месяца, и хозяин даёт ему расписку, если он об этом просит.",
    "uk": "Орендар платить за квартиру в перший день місяця, і господар дає йому розписку, якщо він про це просить.",
    "bg": "Наемателят плаща наема на първия ден от месеца и собственикът му дава разписка, ако той я поиска.",
    "sr": "Станар плаћа кирију првог дана у месецу, а власник му даје признаницу ако он то тражи и ако је потребно.",
    "el": "Ο ενοικιαστής πληρώνει το ενοίκιο την πρώτη μέρα του μήνα και ο ιδιοκτήτης του δίνει απόδειξη.",
    "he": "השוכר משלם את דמי השכירות ביום הראשון של החודש, ובעל הבית נותן לו קבלה על כך.",
    "fa": "مستأجر اجاره را در روز اول ماه می‌پردازد و صاحب خانه برای آن به او رسید می‌دهد.",
    "ur": "کرایہ دار مہینے کی پہلی تاریخ کو کرایہ ادا کرتا ہے اور مالک مکان اس کو رسید دیتا ہے۔",
    "ko": "세입자는 매월 첫째 날에 집세를 내고, 집주인은 그에게 영수증을 준다.",
    "ne": "भाडावालले महिनाको पहिलो दिन भाडा तिर्छ र घरधनीले त्यसको रसिद दिन्छ, यदि उसले माग्यो भने।",
    "ta": "வாடகைதாரர் மாதத்தின் முதல் நாளில் வாடகை செலுத்துகிறார், உரிமையாளர் அதற்கு ரசீது தருகிறார்.",
}
"""One sentence of further languages."""
