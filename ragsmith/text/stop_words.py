"""Function words by language (ISO 639-1): articles, pronouns, prepositions, conjunctions and auxiliaries.

They say little about what a text is about, so that BM25 leaves them out, and much about its language.
"""

from __future__ import annotations

from collections.abc import Mapping

_LISTED = {
    "ar": """
        من في على إلى الى عن مع هذا هذه ذلك تلك التي الذي الذين ما ماذا لا لم لن ليس ليست كان كانت يكون تكون قد أن
        ان إن أو او ثم بل لكن كل بعض أي اي بين عند عندما إذا اذا حتى بعد قبل كما هو هي هم هن أنا نحن أنت انت هل كيف
        متى أين لماذا لذلك حيث غير فيه فيها منه منها عليه عليها له لها به بها لهم و ف ب ل كم منذ خلال دون ضد نحو سوى
        وقد ولا وهو وهي أما فإن أنه أنها لأن
        """,
    "bg": """
        и на за се от да не с в във със по че са ще като до при или но това този тази тези които който която което
        как кога къде какво защо бе беше бъде има няма аз ти той тя ние вие те го му им ни ви си съм сме сте е през
        след преди между без също само още вече ако защото където докато нея него
        """,
    "ca": """
        el la els les un una uns unes i o però de del dels al als a en per amb sense que què qui quin quina quan on
        com si no és són era eren ser estar està estan ha han hi ho es se em et ens us li seu seva seus seves meu
        meva aquest aquesta aquests aquestes aquell aquella això allò més menys molt molta també ja encara des fins
        entre sobre sota perquè doncs tot tota tots totes pel pels
        """,
    "cs": """
        a i aby ale ani asi až bez bude budou by byl byla byli bylo být co což či další do ho já jak jako je jeho
        jej její jejich jen jestli ještě ji jí již jsem jsi jsme jsou jste k kam kde kdo kdy když ke která které
        který kteří ku ma mají má mezi mi mít mu my na nad nám nás ne nebo není než nic o od on ona oni ono pak po
        pod podle pokud pro proč proto protože před při s se si své svůj ta tak také takže tam te tedy ten tento tím
        to tohoto toto tu ty u už v ve však vy z za ze že
        """,
    "da": """
        og i at det en den til er som på de med han af for ikke der var mig sig men et har om vi min havde ham hun
        nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil blev kunne ind når være
        dog noget ville jo deres efter ned skulle denne end dette mit også under have dig anden hende mine alt meget
        sit sine vor mod disse hvis din nogle hos blive mange ad bliver hendes været thi jer sådan kan hvordan
        hvornår hvem hvilken hvilke
        """,
    "de": """
        aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da dabei
        damit dann das dass dazu daß dein deine dem den denn der deren des deshalb dessen die dies diese diesem
        diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es etwas euch für gegen habe
        haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem ins ist ja
        jede jedem jeden jeder jedes jene jetzt kann kein keine keinem keinen keiner können könnte man manche mein
        meine mich mir mit muss musste müssen nach nicht nichts noch nun nur ob oder ohne sehr sei sein seine seinem
        seinen seiner seit sich sie sind so solche soll sollen sollte sondern sonst über um und uns unser unsere
        unter viel vom von vor wann war waren warum was weil weiter welche welchem welchen welcher welches wem wen
        wenn wer werde werden wessen wie wieder will wir wird wo wohin wollen worden wurde wurden während würde
        würden zu zum zur zwar zwischen
        """,
    "el": """
        ο η το οι τα του της των τον την τους τις στο στη στην στον στους στις στα και ή αλλά να θα δεν μην με σε
        για από ως προς κατά μετά πριν χωρίς μεταξύ που πως πώς πότε πού ποιος ποια ποιο τι αν όταν γιατί επειδή
        είναι ήταν έχει έχουν είχε αυτός αυτή αυτό αυτοί αυτές αυτά ένας μια μία ένα μου σου μας σας όπως όχι ναι
        πιο πολύ κάθε όλα όλοι μόνο επίσης ακόμα ήδη εκεί εδώ
        """,
    "en": """
        a about above after again against all also although am among an and any are aren as at be because been
        before being below between both but by can cannot could couldn d did didn do does doesn doing don done down
        during each either else ever every few for from further had hadn has hasn have haven having he her here hers
        herself him himself his how i if in into is isn it its itself just ll m may me might more most much must
        mustn my myself neither no nor not of off on once only onto or other our ours ourselves out over own per
        quite rather re s same shall she should shouldn since so some such t than that the their theirs them
        themselves then there these they this those though through thus to too under until up upon us ve very was
        wasn we were weren what when where whether which while who whom whose why will with within without won would
        wouldn yet you your yours yourself yourselves
        """,
    "es": """
        el la los las lo un una unos unas y e o u pero sino de del al a en por para con sin sobre entre hasta desde
        hacia durante según contra que qué quien quién quienes cual cuál cuales cuándo cuando dónde donde cómo como
        cuánto cuánta cuántos cuántas si sí no ni es son era eran fue fueron ser sido está están estar estaba ha han
        había haber hay he se me te le les nos os su sus mi mis tu tus nuestro nuestra nuestros nuestras este esta
        estos estas ese esa esos esas eso esto aquel aquella más menos muy también ya aún porque pues yo tú él ella
        ellos ellas usted ustedes otro otra otros otras todo toda todos todas cada
        """,
    "et": """
        ja on ei et see ta oli kui ka mis oma aga ning siis nii või seda need mida kes kus millal miks kuidas ma sa
        me te nad mu su tema meie teie nende selle sellest seal siin veel juba ainult väga kõik iga mitte pole olid
        olnud olema olla saab võib peab pärast enne ilma koos üle alla vahel kuni poolt jaoks sest kuid ega kas ühe
        üks
        """,
    "eu": """
        eta edo da du dira dute ez bai ere baina bere bat bi hau hori hura hauek horiek haiek ni zu gu zuek zen
        ziren zuen zuten izan den dela duen duten dago daude egin arte arabera artean ondoren aurretik gabe bezala
        baino oso beste guzti guztiak zer nor non noiz nola zergatik zein zenbat
        """,
    "fa": """
        و در به از که این آن را با برای است بود شد شده می نمی هم نیز تا بر یا اما اگر هر همه یک خود او ما شما آنها
        آنان ایشان من تو چه چرا چگونه کجا کی کدام چند باید شود دارد دارند کرد کرده کند کنند بودند هستند نیست پس پیش
        بین بدون روی زیر ها های ای دیگر ولی زیرا چون هیچ بسیار
        """,
    "fi": """
        ja on ei että se hän oli kun myös joka mutta niin tai sen ovat jos kuin ole olla ollut olisi voi sekä ne
        mitä mikä kuka missä milloin miksi miten minä sinä me te he tämä nämä tuo nuo siitä sitä siinä hänen niiden
        jotka jonka josta jossa joita vain jo vielä hyvin kanssa ilman ennen jälkeen mukaan välillä yli alle kautta
        saakka asti koska vaan eikä eivät en et emme ette oma kaikki jokainen tulee pitää onko
        """,
    "fr": """
        le la les l un une des du de d et ou mais donc or ni car que qu qui quoi dont où quand comment pourquoi
        combien quel quelle quels quelles si ne n pas plus moins très aussi bien encore déjà je j tu il elle on nous
        vous ils elles me m te t se s lui leur leurs y en ce c cet cette ces cela ça ceci mon ma mes ton ta tes son
        sa ses notre nos votre vos à au aux avec sans sous sur dans par pour vers chez entre contre depuis pendant
        jusqu avant après est sont était étaient être été suis sera seront a ont avait avaient avoir eu ai fait peut
        peuvent doit doivent même tout toute tous toutes autre autres chaque lequel laquelle lesquels alors ainsi
        comme parce puisque lorsque
        """,
    "ga": """
        agus an na is i ar le do go a ag de as ó chun faoi gan idir tá bhí níl ní sé sí siad mé tú muid sibh seo sin
        siúd ach nó má dá mar cad cé cá conas nuair cén gach aon eile féin leis dó di acu aige aici bheith raibh
        """,
    "he": """
        של את על לא הוא היא הם הן זה זאת זו אלה אלו אני אתה אנחנו אתם עם אל מן כי אם או גם רק כל אבל יש אין היה היתה
        הייתה היו להיות מה מי איפה מתי למה איך כמה אשר כאשר לפני אחרי בין עד כדי בלי יותר פחות מאוד עוד כבר שלו שלה
        שלהם לו לה להם בו בה אותו אותה
        """,
    "hi": """
        का के की को में से पर ने है हैं था थी थे हो होता होती होते हुआ हुई हुए गया गयी गई गए और या एक यह ये वह वे इस
        उस इन उन इसका इसके इसकी उसका उसके उसकी उनका उनके उनकी अपना अपने अपनी जो जिस जिसका जिसके जिसकी कि तो भी ही
        नहीं न कर करना करने करता करते करती किया किए किसी कोई कुछ क्या कौन कब कहाँ कहां क्यों कैसे कितना कितने कितनी
        लिए साथ तक बाद पहले द्वारा बीच बिना मैं हम तुम आप मेरा हमारा तथा एवं अथवा लेकिन यदि अगर जब तब जहाँ वाला वाले
        वाली रहा रही रहे सकता सकते सकती चाहिए दिया दी
        """,
    "hu": """
        a az egy és vagy de hogy nem is ha mint csak már még meg el ki be fel le van vannak volt voltak lesz lett
        lehet kell ez ezt ezek azt azok aki akik ami amely amelyek ahol amikor mert mi mit miért hol mikor hogyan
        kik kinek én te ő ti ők nekem neki saját minden más nagyon után előtt alatt között szerint nélkül által való
        illetve pedig így úgy itt ott ezért
        """,
    "hy": """
        և ու կամ բայց որ է են էր էին եմ ես ենք եք չէ չեն այս այդ այն սա դա նա նրանք դու մենք դուք իր իրենց նրա մեր
        ձեր մեջ վրա համար հետ մոտ առանց մինչև հետո առաջ մասին ինչ ով որտեղ երբ ինչու ինչպես որքան բոլոր ամեն մի եթե
        քանի նաև միայն արդեն դեռ ոչ
        """,
    "id": """
        yang dan di ke dari untuk dengan pada ini itu adalah tidak akan atau oleh juga dalam sebagai karena dapat
        bisa telah sudah belum ada bukan saya kamu anda dia kami kita mereka nya apa siapa kapan mana dimana
        bagaimana mengapa berapa jika bila ketika saat setelah sebelum antara tanpa hingga sampai tetapi namun lebih
        paling sangat hanya saja masih para tersebut secara bagi harus seperti lain setiap semua suatu
        """,
    "it": """
        il lo la i gli le l un uno una e ed o ma se che chi cui di del dello della dei degli delle a al allo alla ai
        agli alle da dal dallo dalla dai dagli dalle in nel nello nella nei negli nelle con su sul sullo sulla sui
        sugli sulle per tra fra non è sono era erano essere stato stata stati state ha hanno aveva avere ho abbiamo
        si mi ti ci vi ne questo questa questi queste quello quella quelli quelle suo sua suoi sue mio mia nostro
        nostra loro io tu lui lei noi voi come quando dove perché quale quali quanto quanta quanti quante cosa più
        meno molto anche già ancora dopo prima senza ogni tutto tutta tutti tutte altro altra altri altre può deve
        così
        """,
    "ja": """
        です ます まし した して ている てい いる いた ある あり ない なけ から まで など こと もの する され れる
        れた なる なり この その あの これ それ どの どこ いつ なに なぜ どう よう ため とき ところ では には とは
        また および または において について ので のは のが のを いう とい て に を は が の と も で へ や か ね よ
        な た だ
        """,
    "ko": """
        은 는 이 가 을 를 의 에 와 과 도 로 만 및 또는 그리고 그러나 하지만 있는 있다 없는 없다 하는 한다 합니 니다
        습니 입니 이다 에서 으로 까지 부터 에게 무엇 언제 어디 누가 어떻 얼마 그 저 것
        """,
    "lt": """
        ir yra į iš kad su ne apie po per už tai kaip bet ar arba ant prie nuo iki dėl tarp be jis ji jie jos aš tu
        mes jūs jo jų mano tavo savo šis ši šie šios tas ta tie tos kuris kuri kurie kurios kas kur kada kodėl kiek
        jei jeigu kai nes taip pat jau dar tik labai buvo būti bus gali turi nėra visi visos kiekvienas
        """,
    "mr": """
        आणि व किंवा आहे आहेत होता होती होते या हा ही हे तो ती ते त्या त्याचा त्याची त्याचे यांनी यांच्या च्या चा ची
        चे ला ना मध्ये वर साठी पासून पर्यंत नाही नाहीत म्हणून पण तर की काय कोण कधी कुठे कसे का असे असा अशी आपल्या मी
        आम्ही तुम्ही आपण केला केली केले झाला झाली झाले एक
        """,
    "ne": """
        र वा तर पनि छ छन् थियो थिए हो होइन हुन् हुन्छ गर्न गर्ने गरेको गरे भएको भयो यो त्यो यी ती यस त्यस को का की
        ले लाई मा बाट देखि सम्म सँग लागि बिना म हामी तिमी तपाईं उनी उनको आफ्नो जो जुन के कसले कहिले कहाँ किन कसरी
        कति यदि भने एक
        """,
    "nl": """
        de het een en of maar want dus van in op te aan bij met voor door over om uit naar tot tegen onder tussen
        zonder volgens sinds tijdens na is zijn was waren ben wordt worden werd werden heeft hebben had hadden kan
        kunnen moet moeten mag mogen zal zullen zou zouden die dat dit deze der den des er hier daar waar wie wat
        wanneer waarom hoe welk welke hoeveel ik je jij u hij zij ze wij we jullie hem haar hun mij ons onze mijn uw
        niet geen ook nog al als dan toen zo zeer meer meest veel alle elke ieder iedere andere zelf wel nu omdat
        zodat indien
        """,
    "no": """
        og i jeg det at en et den til er som på de med han av ikke ikkje der så var meg seg men ett har om vi min
        mitt ha hadde hun nå over da ved fra du ut sin dem oss opp man kan hans hvor eller hva skal selv her alle
        vil bli ble blei blitt kunne inn når være kom noen noe ville dere deres etter ned skulle denne for si sitt
        mye også under vært dette hvem hvilken hvilke hvordan hvorfor hver uten mellom før mot hos disse enn slik
        """,
    "pl": """
        i w we z ze na do nie się to jest są był była było były być o od po za przez przy dla bez pod nad przed
        między oraz lub albo ale a że aby żeby jak jako gdy kiedy gdzie kto co który która które którzy których
        którego której czy dlaczego ile ten ta te tej tego tym tych temu on ona ono oni one ja ty my wy mi mu go ją
        jej jego ich im nas was sobie swój swoje swoją tak także też już jeszcze tylko bardzo może mogą ma mają
        będzie będą został została jeżeli jeśli ponieważ
        """,
    "pt": """
        o a os as um uma uns umas e ou mas de do da dos das em no na nos nas num numa por pelo pela pelos pelas para
        com sem sobre entre até desde ao aos à às que quem qual quais quando onde como quanto quanta quantos quantas
        se não nem é são era eram foi foram ser sido está estão estar estava há tem têm tinha ter havia eu tu ele
        ela nós vós eles elas você vocês me te lhe lhes meu minha seu sua seus suas nosso nossa este esta estes
        estas esse essa esses essas isso isto aquele aquela mais menos muito também já ainda porque pois depois
        antes cada todo toda todos todas outro outra outros outras
        """,
    "ro": """
        și si sau dar iar de din la în pe cu fără pentru prin despre între până după înainte sub peste către al a
        ale ai un o unui unei unor lui este sunt era erau fi fost va vor am au avea ce cine care când unde cum cât
        câte câți că să nu se îl îi le își mi ți ne vă eu tu el ea noi voi ei ele acest această aceste acești acel
        acea acele meu sa său săi sale mai foarte tot toate toți fiecare alt altă alte dacă deoarece astfel decât
        doar încă
        """,
    "ru": """
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее её мне было вот от
        меня еще ещё нет о об из ему теперь когда даже ну ли если уже или ни быть был была были него до вас опять
        вам ведь там потом себя ничего ей может они тут где есть надо ней для мы тебя их чем сам чтоб чтобы без
        будто чего раз тоже себе под будет ж тогда кто этот эта эти это того потому этого какой какая какие каков
        совсем ним здесь этом один мой тем нее сейчас куда зачем всех можно при после над тот через нас про них
        более всегда между который которая которое которые которых которого сколько почему также является этой
        """,
    "sk": """
        a aj ak ako ale alebo ani až bez bol bola boli bolo bude budú by byť čo či do ho ich im iba ja je jeho jej k
        kde kedy keď kto ktorá ktoré ktorí ktorý ku má majú medzi mi môže na nad nie niet o od on ona oni ono po pod
        podľa pokiaľ potom pre prečo preto pretože pred pri s sa si so sú svoj svoje ta tak takže tam ten tento to
        toto tu ty už v vo však vy z za zo že
        """,
    "sr": """
        и у је се на да за од са су не као који која које што али или до по из о он она они оно ми ви ти ја његов
        њен њихов ово тај та то те овај ова ови где када како зашто колико ко шта бити био била било били ће би још
        већ само после пре између без код према ако јер
        """,
    "sv": """
        och i att det en ett den till är som på de med han av för inte var mig sig men har om vi min hade hon nu
        över då från du ut sin dem oss upp man hans hur eller vad ska skall själv här alla vill blev kunde in när
        vara dock något ville deras efter ned skulle denna än detta mitt också under ha dig andra henne mina allt
        mycket sitt sina vår mot dessa där vid utan mellan vem vilken vilket vilka varför varje kan måste får blir
        blivit varit
        """,
    "ta": """
        மற்றும் அல்லது ஆனால் ஒரு இந்த அந்த இது அது என்று என என்ற உள்ள உள்ளது இல்லை இருந்து மூலம் பற்றி வரை போது
        பின்னர் முன் எந்த என்ன யார் எப்போது எங்கே ஏன் எப்படி எவ்வளவு நான் நாம் நீங்கள் அவர் அவர்கள் தன் கொண்டு ஆகும்
        ஆகிய இல்லாமல் எனவே
        """,
    "tr": """
        ve veya ya da de ki bu şu o bunlar şunlar onlar bir biri birkaç her hiç için ile gibi kadar göre sonra önce
        beri rağmen ama fakat ancak çünkü eğer ise ne nasıl neden niçin nerede nereye nereden kim kime kimin hangi
        kaç mi mı mu mü değil var yok daha en çok az ben sen biz siz beni seni onu bizi sizi bana sana ona bize size
        benim senin onun bizim sizin onların bunun buna bunu şunu kendi kendisi olan olarak oldu olduğu olur olmak
        idi iken diye hem bile tüm bütün bazı aynı yine artık zaten şekilde tarafından üzere
        """,
    "uk": """
        і й та у в на не що з із зі до за як від по про це для або але він вона воно вони я ти ми ви його її їх ним
        нею бути був була було були є чи якщо коли де хто який яка яке які яких якого чому скільки цей ця ці цього
        того той тому також вже ще лише тільки після перед між без під над при через може має мають буде щоб бо
        """,
    "ur": """
        اور کا کے کی کو میں سے پر نے ہے ہیں تھا تھی تھے ہو ہوتا ہوتی ہوئے یہ وہ اس ان ایک جو کہ تو بھی ہی نہیں نہ کر
        کرنے کرتا کیا کوئی کچھ کون کب کہاں کیوں کیسے کتنا لیے ساتھ تک بعد پہلے اگر لیکن یا اپنے اپنی گیا گئی جب تب
        """,
    "vi": """
        và là của có không được cho trong với các những một này đó khi thì mà để từ đến về như ở tại bởi vì nên nếu
        nhưng hoặc đã đang sẽ phải cũng rất nhiều hơn nhất ra vào lên bị do theo trên dưới trước sau giữa ai gì nào
        đâu sao bao nhiêu tôi bạn họ chúng ta anh chị ông bà nó
        """,
    "yi": """
        דער די דאָס דעם און אָדער אָבער אין פֿון אויף מיט צו פֿאַר איז זענען זײַנען געווען האָט האָבן ניט נישט אַז
        ווי ווען וווּ ווער וואָס פֿאַרוואָס איך דו ער זי עס מיר איר זיי זיך זײַן אַ אַן נאָך שוין אויך נאָר אַלע
        יעדער
        """,
    "zh": """
        的 了 是 在 和 与 及 或 也 都 就 而 但 我 你 他 她 它 这 那 吗 呢 吧 啊 之 其 所 被 把 从 对 为 以 于 由 等
        我们 你们 他们 她们 它们 这个 那个 这些 那些 什么 怎么 怎样 如何 多少 哪里 哪个 哪些 什麼 怎麼 這個 那個
        這些 為什 为什 是否 可以 以及 或者 并且 而且 但是 因为 所以 如果 那么 一个 一些 没有
        """,
}

STOP_WORDS_BY_LANGUAGE: Mapping[str, frozenset[str]] = {
    language: frozenset(listed.split()) for language, listed in _LISTED.items()
}
"""In lower case and NFC. Of languages that are written without blanks between words, pairs of characters, too."""
